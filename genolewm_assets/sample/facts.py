"""What the sample holds, counted: pins of its content, and figures that tests and demos can assert.

The figures were counted from the files by the tests of this module, which share no code with the simulation. After a
change of the simulation they say what the figures have become.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: MD5 of the upper-case sequence of each contig (SAM M5).
CONTIG_MD5: Mapping[str, str] = MappingProxyType(
    {
        "chr17": "b4bf866614350aa2af715a8612ad71d0",
        "chr20": "e6daa3877ad986bbcc1456fc938f3732",
        "chr21": "455130f11ddf2e6746b87ab239835d8d",
        "chrM": "106fd0530084fce664e82b431e1db9e7",
    }
)

#: MD5 of the decompressed bytes of each file, of a Parquet file's rows as JSON lines. Of the files themselves it would
#: depend on the build of zlib and the release of the Parquet library.
CONTENT_MD5: Mapping[str, str] = MappingProxyType(
    {
        "clinvar/clinvar_20240107.vcf.gz": "bc9385bb4a7a304e82855b0ec93ba8ff",
        "clinvar/clinvar_20250105.vcf.gz": "fed24e76f09614fc053cba5870f7e6e1",
        "corpus/eukaryote_generator/part-00000.parquet": "d4a9d7ea380aa61d10c37c43fe40ad9d",
        "corpus/mrna_evo2/part-00000.parquet": "71e2059d72e90cecfcbfc08eb9a87033",
        "corpus/mrna_splice_evo2/part-00000.parquet": "aacb15fad614ce6032e2fcc6ff413119",
        "corpus/prokaryote_evo2/part-00000.parquet": "c34dea73612f4fb552a3af4dda37ffab",
        "gnomad/gnomad.genomes.v3.1.2.sites.chr20.vcf.bgz": "35fe957db4a0c46644c5602d8fb47551",
        "gnomad/gnomad.genomes.v3.1.sites.chrM.vcf.bgz": "c6de47516de887ea90d0b34bcce0901c",
        "gnomad/gnomad.genomes.v4.1.sites.chr21.vcf.bgz": "22f34ea4b44185479e63bf6484ba4559",
        "gnomad/gnomad.joint.v4.1.sites.chr17.vcf.bgz": "4cf78923ddc9dbfffe9cd4f8e15232e8",
        "mtdna/genomes.fa.gz": "96efa6a08cd0f42d5ed414d84cbdff95",
        "mtdna/genomes.gb.gz": "c303009b1df1af4296e5143f79481592",
        "mtdna/heteroplasmy_af.vcf.gz": "6933a2beaf36531a224921fd6f859da0",
        "mtdna/heteroplasmy_hl.vcf.gz": "a4b7c7e406df83237799fa40ddc4e461",
        "reference.fa.gz": "291c8a398b1d3a16ef6d255cefb00d83",
        "tracks/excluded_region.bed.gz": "e18a15ae1328d153e0d3abe92bf81e30",
        "tracks/repeat.bed.gz": "f2e7ecc31550b1c0d267479a92a8c45a",
        "tracks/segmental_duplication.bed.gz": "1a3058f5c8388df6d483f1e2c999e7bd",
    }
)


@dataclass(frozen=True, slots=True)
class GenomeFacts:
    """One contig: bases, bases of ACGT, maximal runs of them, windows of the default profile (none on chrM)."""

    length: int
    acgt_bases: int
    acgt_runs: int
    windows: int


@dataclass(frozen=True, slots=True)
class GnomadFacts:
    """One gnomAD-style file; every allele is in one of ``rejects``, ``failed``, ``low_af``, ``low_an``, ``kept``.

    ``failed`` did not pass FILTER, ``low_af`` of the rest is under 1 %, ``low_an`` of the rest has AN under half of the
    file's maximum. On chrM everything but the rejects is kept. ``irregular`` of the alleles are not in normal form.
    """

    records: int
    alleles: int
    multiallelic_records: int
    irregular: int
    rejects: Mapping[str, int]
    failed: int
    low_af: int
    low_an: int
    kept: int


@dataclass(frozen=True, slots=True)
class ClinvarFacts:
    """One release. ``labels`` counts records before ``rejects`` and ``other_contig`` are taken out."""

    records: int
    labels: Mapping[str, int]
    rejects: Mapping[str, int]
    other_contig: int
    kept: int
    genes: int


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """From the first to the second release, by normalised allele, rejects left out; the last three of those in both."""

    added: int
    removed: int
    text_changed: int
    class_changed: int
    id_changed: int


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """One corpus source.

    ``duplicates`` repeat id and sequence, ``reused_ids`` the id alone; ``too_short`` of the rest have no window.
    ``windows`` of the default profile with seed 0 and short windows, ``short_windows`` of them below its size.
    """

    records: int
    bases: int
    non_acgt_bases: int
    duplicates: int
    reused_ids: int
    too_short: int
    windows: int
    short_windows: int


@dataclass(frozen=True, slots=True)
class MitoGenomeFacts:
    """The collections of mitochondrial genomes; every record is kept or in one of ``rejects``.

    Of the kept: ``bases``, and ``ambiguous_bases`` that are no A, C, G or T; how many state a haplogroup, and how many
    haplogroups; ``turned`` do not begin where chrM does or are of the other strand; ``near_pairs`` differ from each
    other in at most ten bases.
    """

    fasta_records: int
    genbank_records: int
    rejects: Mapping[str, int]
    kept: int
    bases: int
    ambiguous_bases: int
    haplogroup_stated: int
    haplogroups: int
    turned: int
    near_pairs: int


@dataclass(frozen=True, slots=True)
class HeteroplasmyFacts:
    """One file of calls: ``calls`` have a level above 0, ``heteroplasmic`` of them one under 0.95.

    ``missing`` are the genomes and sites without a call, whose level is ``.``.
    """

    genomes: int
    records: int
    multiallelic_records: int
    failed_records: int
    calls: int
    heteroplasmic: int
    missing: int


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """Everything countable about the sample."""

    genome: Mapping[str, GenomeFacts]
    gnomad: Mapping[str, GnomadFacts]
    clinvar: Mapping[str, ClinvarFacts]
    changes: ChangeFacts
    corpus: Mapping[str, CorpusFacts]
    mito_genomes: MitoGenomeFacts
    heteroplasmy: Mapping[str, HeteroplasmyFacts]


SAMPLE_FACTS = SampleFacts(
    genome=MappingProxyType(
        {
            "chr17": GenomeFacts(
                length=2000000,
                acgt_bases=1930000,
                acgt_runs=2,
                windows=234,
            ),
            "chr20": GenomeFacts(
                length=2200000,
                acgt_bases=2079863,
                acgt_runs=3,
                windows=251,
            ),
            "chr21": GenomeFacts(
                length=3400000,
                acgt_bases=3213950,
                acgt_runs=6,
                windows=386,
            ),
            "chrM": GenomeFacts(
                length=16569,
                acgt_bases=16568,
                acgt_runs=2,
                windows=0,
            ),
        }
    ),
    gnomad=MappingProxyType(
        {
            "chr17": GnomadFacts(
                records=7859,
                alleles=7874,
                multiallelic_records=15,
                irregular=56,
                rejects=MappingProxyType({"duplicate": 3, "ref_mismatch": 4, "spanning_deletion": 2}),
                failed=1095,
                low_af=5182,
                low_an=101,
                kept=1487,
            ),
            "chr20": GnomadFacts(
                records=8604,
                alleles=8619,
                multiallelic_records=15,
                irregular=55,
                rejects=MappingProxyType({"duplicate": 3, "ref_mismatch": 4, "spanning_deletion": 2}),
                failed=1016,
                low_af=5755,
                low_an=128,
                kept=1711,
            ),
            "chr21": GnomadFacts(
                records=13318,
                alleles=13333,
                multiallelic_records=15,
                irregular=55,
                rejects=MappingProxyType({"duplicate": 3, "ref_mismatch": 4, "spanning_deletion": 2}),
                failed=1613,
                low_af=8773,
                low_an=199,
                kept=2739,
            ),
            "chrM": GnomadFacts(
                records=2272,
                alleles=2272,
                multiallelic_records=0,
                irregular=1,
                rejects=MappingProxyType({"duplicate": 1, "ref_mismatch": 1, "ref_not_acgt": 1}),
                failed=0,
                low_af=0,
                low_an=0,
                kept=2269,
            ),
        }
    ),
    clinvar=MappingProxyType(
        {
            "2024-01-07": ClinvarFacts(
                records=3007,
                labels=MappingProxyType({"B": 295, "LB": 815, "LP": 339, "OTHER": 385, "P": 428, "VUS": 745}),
                rejects=MappingProxyType({"duplicate": 3, "iupac": 4, "missing_alt": 3, "ref_mismatch": 2}),
                other_contig=3,
                kept=2992,
                genes=28,
            ),
            "2025-01-05": ClinvarFacts(
                records=3858,
                labels=MappingProxyType({"B": 405, "LB": 1033, "LP": 505, "OTHER": 547, "P": 539, "VUS": 829}),
                rejects=MappingProxyType({"duplicate": 3, "iupac": 5, "missing_alt": 3, "ref_mismatch": 2}),
                other_contig=3,
                kept=3842,
                genes=28,
            ),
        }
    ),
    changes=ChangeFacts(
        added=898,
        removed=48,
        text_changed=547,
        class_changed=300,
        id_changed=2,
    ),
    corpus=MappingProxyType(
        {
            "eukaryote_generator": CorpusFacts(
                records=53,
                bases=1383796,
                non_acgt_bases=137,
                duplicates=1,
                reused_ids=1,
                too_short=1,
                windows=131,
                short_windows=25,
            ),
            "mrna_evo2": CorpusFacts(
                records=126,
                bases=584015,
                non_acgt_bases=0,
                duplicates=0,
                reused_ids=0,
                too_short=24,
                windows=102,
                short_windows=96,
            ),
            "mrna_splice_evo2": CorpusFacts(
                records=120,
                bases=510660,
                non_acgt_bases=0,
                duplicates=0,
                reused_ids=0,
                too_short=0,
                windows=120,
                short_windows=120,
            ),
            "prokaryote_evo2": CorpusFacts(
                records=10,
                bases=811000,
                non_acgt_bases=0,
                duplicates=0,
                reused_ids=0,
                too_short=0,
                windows=86,
                short_windows=2,
            ),
        }
    ),
    mito_genomes=MitoGenomeFacts(
        fasta_records=40,
        genbank_records=5,
        rejects=MappingProxyType(
            {"duplicate_sequence": 1, "junction_repeat": 1, "no_sequence": 1, "too_many_n": 1, "too_short": 1}
        ),
        kept=40,
        bases=662750,
        ambiguous_bases=18,
        haplogroup_stated=27,
        haplogroups=12,
        turned=18,
        near_pairs=1,
    ),
    heteroplasmy=MappingProxyType(
        {
            "AF": HeteroplasmyFacts(
                genomes=4,
                records=94,
                multiallelic_records=1,
                failed_records=1,
                calls=133,
                heteroplasmic=25,
                missing=1,
            ),
            "HL": HeteroplasmyFacts(
                genomes=3,
                records=87,
                multiallelic_records=0,
                failed_records=1,
                calls=97,
                heteroplasmic=18,
                missing=1,
            ),
        }
    ),
)
