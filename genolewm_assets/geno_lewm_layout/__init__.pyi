from .columns import GENO_LEWM_CLINVAR as GENO_LEWM_CLINVAR
from .columns import GENO_LEWM_GNOMAD as GENO_LEWM_GNOMAD
from .columns import MAX_ALLELE_BP as MAX_ALLELE_BP
from .columns import rewrite_shard as rewrite_shard
from .command import package_export as package_export
