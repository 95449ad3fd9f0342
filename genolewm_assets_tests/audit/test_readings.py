"""The audit's own readings against what the rest of the house knows, and its commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.audit.alleles import normal_alleles
from genolewm_assets.audit.alleles.clinvar_vcf import class_of, read_records
from genolewm_assets.audit.alleles.normal_alleles import KEY, keys_of, normalise_alleles
from genolewm_assets.audit.duplicates import either_strand, end_keys
from genolewm_assets.audit.reading.contig_names import assembled_bases, canonical_name
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.reading.review_stars import stars_of
from genolewm_assets.console import out
from genolewm_assets.errors import FastaError, VcfError
from genolewm_assets.genome import GRCH38
from genolewm_assets.holdouts.corpus import GRCH38_BASES
from genolewm_assets.sources.clinvar.terms import _STARS, label_of
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import sequences
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld


def test_contig_names_and_sizes() -> None:
    for contig in GRCH38:
        assert {canonical_name(name) for name in (contig.name, *contig.aliases)} == {contig.name}
    known = {contig.name: assembled_bases(contig.length) for contig in GRCH38 if contig.name != "chrM"}
    assert known == {name: bases for name, bases in GRCH38_BASES.items() if name != "chrM"}
    assert assembled_bases(12_345) is None


@given(
    texts=st.lists(sequences(0, 40, "ACGTNRYU"), max_size=6),
    ends=st.tuples(sequences(0, 18), sequences(0, 18)),
    skipped=st.integers(0, 3),
)
def test_sequences_with_one_digest_have_one_end_key(texts: list[str], ends: tuple[str, str], skipped: int) -> None:
    texts += [f"{ends[0]}{text}{ends[1]}" for text in texts]
    texts += [text.translate(str.maketrans("ACGTRYU", "UGCAYRA"))[::-1].lower() for text in texts]
    keys = end_keys(pa.record_batch({"sequence": pa.array(["", *texts], pa.string())}).slice(min(skipped, len(texts))))
    digests = [either_strand(text) for text in ["", *texts][min(skipped, len(texts)) :]]
    found = dict(zip(digests, keys.tolist(), strict=True))
    assert [found[digest] for digest in digests] == keys.tolist()


def test_partial_contigs_are_measured(sliced_fasta: Path) -> None:
    with Reference(sliced_fasta) as reference:
        shares = {name: reference.assembled_share(name) for name in ("chr20", "chr21", "chrM", "chr1")}
    assert 0 < shares["chr21"] < 0.95
    assert shares["chrM"] == 1
    assert shares["chr1"] == 0


def test_normal_forms(tmp_path: Path) -> None:
    fasta = write_fasta(tmp_path / "genome.fa", {"21": "GATTTTACACACAGGCTA"})
    cases = {
        ("chr21", 5, "TT", "T"): "chr21:2:AT:A",
        ("chr21", 11, "ACA", "A"): "chr21:6:TAC:T",
        ("chr21", 13, "AGG", "ATG"): "chr21:14:G:T",
        ("chr21", 14, "GG", "TT"): "chr21:14:GG:TT",
        ("chr21", 14, "G", "T"): "chr21:14:G:T",
        ("chr21", 14, "C", "T"): None,
        ("chr21", 19, "G", "T"): None,
        ("chr21", 14, "N", "T"): None,
        ("chr21", 14, "G", "G"): None,
        ("chr20", 14, "G", "T"): None,
    }
    alleles = pa.table(dict(zip(KEY, map(pa.array, zip(*cases, strict=True)), strict=True)))
    with Reference(fasta) as reference:
        assert keys_of(normalise_alleles(alleles, reference)).to_pylist() == list(cases.values())


def test_alleles_that_bcftools_need_not_see_are_those_that_it_leaves_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    text = "".join(rng.choice(["A", "C", "AC", "CAG", "T"], 400))
    rows = []
    for at, n_ref in zip(rng.integers(0, len(text), 4_000).tolist(), rng.integers(1, 6, 4_000).tolist(), strict=True):
        alt = "".join(rng.choice(list("ACGT"), rng.integers(1, 6)))
        ref = text[at : at + n_ref] if rng.random() < 0.9 else alt[::-1]
        rows.append(("chr21", at + 1, ref, ref[:1] + alt if rng.random() < 0.5 else alt))
    alleles = pa.table(dict(zip(KEY, map(pa.array, zip(*rows, strict=True)), strict=True)))
    with Reference(write_fasta(tmp_path / "genome.fa", {"21": text})) as reference:
        ours = normalise_alleles(alleles, reference)
        is_normal = normal_alleles.are_normal(alleles)
        monkeypatch.setattr(normal_alleles, "are_normal", lambda given: np.zeros(given.num_rows, np.bool_))
        assert ours.equals(normalise_alleles(alleles, reference))
    assert 0.3 < is_normal.mean() < 0.9
    assert 100 < ours["pos"].null_count < 1_000


def test_a_fasta_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FastaError, match="cannot be opened"):
        Reference(tmp_path / "absent.fa")
    twice = write_fasta(tmp_path / "twice.fa", {"chr21": "ACGT", "21": "ACGT"})
    with pytest.raises(FastaError, match="holds chr21 twice"):
        Reference(twice)


@each_row(
    "clnsig",
    [
        *("Pathogenic", "Likely_pathogenic", "Pathogenic/Likely_pathogenic", "Benign", "Benign/Likely_benign"),
        *("Uncertain_significance", "Conflicting_classifications_of_pathogenicity", "drug_response", "not_provided"),
        *("Pathogenic|drug_response", "Likely_benign|other", "Pathogenic,_low_penetrance", "Pathogenic,_other"),
        *("Uncertain_significance/Uncertain_risk_allele", "Pathogenic/Likely_pathogenic|risk_factor", "Affects"),
        *(
            "Conflicting_interpretations_of_pathogenicity|association",
            "Pathogenic/Likely_pathogenic/Likely_risk_allele",
        ),
    ],
)
def test_classes_are_those_of_the_reader(clnsig: str) -> None:
    assert class_of(clnsig) == str(label_of(clnsig, where="test"))


def test_records_of_a_vcf(tmp_path: Path) -> None:
    vcf = tmp_path / "clinvar.vcf"
    info = "ALLELEID=5;XCLNSIG=Benign;CLNSIG=Pathogenic;CLNREVSTAT=reviewed_by_expert_panel"
    rows = [("1", "8", info), ("2", "9", ".")]
    vcf.write_text("#CHROM\n" + "".join(f"21\t{pos}\t{id_}\tA\tC\t.\t.\t{info}\n" for pos, id_, info in rows))
    _, read = read_records(vcf)
    assert [tuple(row.values()) for row in read.to_pylist()] == [
        ("chr21", 1, "A", "C", "P", 3, 8, 5),
        ("chr21", 2, "A", "C", "OTHER", 0, 9, -1),
    ]
    vcf.write_text("#CHROM\nno record\n")
    with pytest.raises(VcfError, match=r"clinvar\.vcf: cannot be read"):
        list(read_records(vcf))
    vcf.write_text("#CHROM\n")
    assert [table.num_rows for table in read_records(vcf)] == [0]


@each_row("review", sorted(_STARS))
def test_stars_are_those_of_the_reader(review: str) -> None:
    assert stars_of(review) == _STARS[review]


def test_clean(audited: AuditedWorld, command: Command) -> None:
    words = ("--reference", audited.fasta, "--clinvar", audited.vcf, "--tuples", 100)
    printed = command("audit", audited.package, *words)
    assert printed.code == 0
    assert printed.out.startswith("No held-out sequence, allele or label was found in 55 training windows")
    printed = command("audit", "--json", "--power", 2, audited.package, *words)
    report = json.loads(printed.out)
    assert (printed.code, report["verdict"]) == (0, "clean")
    assert {row["findings"] for row in report["results"]} == {0}
    power = {one["plant"]: one["planted"] for row in report["results"] for one in row["power"]}
    assert len(power) == 20
    assert set(power.values()) == {2}
    assert report["headline"].endswith(" of 40.")


def test_leak_and_uncertain(audited: AuditedWorld, tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "planted"
    words = ("audit", "plant", audited.package, folder, "--reference", audited.fasta)
    printed = command(*words, "--kind", "copy_95", "--kind", "padded_allele")
    lines = printed.out.splitlines()
    assert (printed.code, [line.split(":")[0] for line in lines]) == (0, ["copy_95", "padded_allele", "Audit it"])
    leaky = command(*lines[-1].removeprefix("Audit it: genolewm ").split(), "--tuples", 0)
    assert leaky.code == 5
    assert "Leaks were found (1 of held sequence, 1 of held allele) in 56 training windows and 0 tuples" in leaky.out
    assert "; not certain: recreated allele, false edit, wrong mix, wrong label, unshown allele; " in leaky.out
    assert "planted.copy_95" in leaky.out
    assert command("audit", audited.package, "--reference", audited.fasta, "--tuples", 0).code == 6
    unknown = ("audit", "plant", audited.package, tmp_path / "x", "--kind", "no", *words[4:])
    for options, code, problem in (
        (words, 2, "exists already"),
        (unknown, 2, "--kind no: is unknown: expected one of alias_contig"),
        (("audit", audited.package), 4, "has no reference FASTA beside it"),
        (("audit", tmp_path), 4, "Name the folder of a package"),
    ):
        refused = command(*options)
        assert refused.code == code
        assert problem in refused.err


def test_alleles_are_printed_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    out.print("chr21:951:T:A: source gnomad", markup=False, soft_wrap=True)
    assert capfd.readouterr().out == "chr21:951:T:A: source gnomad\n"
