import time, sys
import numpy as np, pyarrow as pa
from genolewm_assets.lewm.edits.allele_index import AlleleIndex
from genolewm_assets.lewm.edits.rules import SamplingRules
from genolewm_assets.lewm.edits.sources import EditSource
from genolewm_assets.lewm.edits.windows import SplitWindows
from genolewm_assets.lewm.training.schedule import EditMix
from genolewm_assets.lewm.sampler.batch_sampler import BatchSampler, plan_codes
from genolewm_assets.lewm.sampler.tables import AlleleArrays, WindowArrays
from genolewm_assets_tests.worlds.lewm.stream_world import *
t=time.time()
NW=512
REF=simulate_reference(length=3_000_000) if len(sys.argv)>1 and sys.argv[1]=="rep" else np.frombuffer(b"ACGT",np.uint8)[np.random.default_rng(1).integers(0,4,3_000_000)].tobytes()
AL=simulate_alleles(REF, 20000); 
REAL={EditSource.GNOMAD: AlleleIndex(AL), EditSource.CLINVAR: AlleleIndex(AL.take(list(range(0,20000,5))))}
held=AlleleIndex(AL.take(list(range(3,20000,50))))
wins=[make_window(REF,int(s),window_bp=12288,strand="+" if i%2 else "-") for i,s in enumerate(np.random.default_rng(2).integers(300,2_980_000,NW))]
split=SplitWindows([as_batch(wins)])
arr={s:AlleleArrays.of(i,split.contigs) for s,i in REAL.items()}
h=AlleleArrays.of(held,split.contigs)
PLAN = EditMix.named("exact").slots(8).plan(0, 0)
print("prep",time.time()-t)
def run(share, policy="right_flank", plan=PLAN, B=32):
    bs=BatchSampler(arr,h,SamplingRules(multi_edit_share=share,policy=policy))
    pc=plan_codes([plan]*B); again=np.zeros(B,np.int64)
    best=1e9; 
    for rep in range(7):
        tu=ts=0
        for b in range(0,NW,B):
            t0=time.thread_time(); wa=WindowArrays.unpack(split.packed(np.arange(b,b+B))); t1=time.thread_time()
            eb=bs.sample(wa,pc,seed=7,epoch=rep,again=again); t2=time.thread_time()
            tu+=t1-t0; ts+=t2-t1
        if tu+ts<best: best=tu+ts; parts=(tu,ts)
    n=NW*8
    print(f"share {share} {policy} {plan[0]}..: {n/best:,.0f} tuples/s; unpack {parts[0]/n*1e6:.2f} us, sample {parts[1]/n*1e6:.2f} us per tuple; redraws {eb.redraws.sum()/(B*8):.2f}")
    return wa,eb
S,I,G=EditSource.SYNTHETIC_SNV,EditSource.SYNTHETIC_INDEL,EditSource.GNOMAD
run(0.1); run(0.0); run(1.0); run(0,plan=(S,)*8); run(0,plan=(I,)*8); run(0,plan=(G,)*8); run(0.1,"left_flank")
wa,eb=run(0.1,"opposite")
b=1e9
for _ in range(20):
    t0=time.thread_time(); eb.edited_windows(wa); b=min(b,time.thread_time()-t0)
print("edited windows us/tuple", b/len(eb)*1e6)
