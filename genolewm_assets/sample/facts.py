"""Counts of the sample's content and MD5s of its files, for tests and demos.

The tests of this module count the figures from the files and share no code with the simulation. After a change of the
simulation their failures show the new figures.
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

#: MD5 of the decompressed bytes of each file; for a Parquet file, of its rows as JSON lines. The MD5 of the files
#: themselves would depend on the build of zlib and the release of the Parquet library.
CONTENT_MD5: Mapping[str, str] = MappingProxyType(
    {
        "releases/clinvar_20240107.vcf.gz": "47006733fb48cf909ef1df3c6d37161a",
        "releases/clinvar_20250105.vcf.gz": "8bac75ffc72a5cf5592cde01e820016e",
        "corpus/eukaryote_generator/part-00000.parquet": "d4a9d7ea380aa61d10c37c43fe40ad9d",
        "corpus/mrna_evo2/part-00000.parquet": "71e2059d72e90cecfcbfc08eb9a87033",
        "corpus/mrna_splice_evo2/part-00000.parquet": "aacb15fad614ce6032e2fcc6ff413119",
        "corpus/prokaryote_evo2/part-00000.parquet": "c34dea73612f4fb552a3af4dda37ffab",
        "forensic/kit/SimPlex_12_panel.txt": "94692e61931a9b64495f40b3f4e60273",
        "forensic/kit/SimPlex_12_bins.txt": "9cb1a91071a32414a0921e788b7a612a",
        "forensic/runs/2024-01-07_SimPlex12/A01_ladder.hid": "5af5213a5b3ffb304e933f74e07b4227",
        "forensic/runs/2024-01-07_SimPlex12/A02_positive.hid": "936fe2f3b59cd3051bdb6d1b89aca5fc",
        "forensic/runs/2024-01-07_SimPlex12/A03_NTC.hid": "3a222c3c417c4d62a26a55ee727f4359",
        "forensic/runs/2024-01-07_SimPlex12/A04_S1_1.hid": "4a169f8c9a67b893f0b4732182456a21",
        "forensic/runs/2024-01-07_SimPlex12/A05_S1_2.hid": "77e2418f5613d6d4f7157e2a8de23cb0",
        "forensic/runs/2024-01-07_SimPlex12/A06_S2.hid": "40ba03ac0e6489496c7402f0c44b8c02",
        "forensic/runs/2024-01-07_SimPlex12/A07_S3.hid": "fa966367e0ff97b1e297710be45c3b2c",
        "forensic/runs/2024-01-07_SimPlex12/A08_S4.hid": "beb66301c104130f5c7ffca6b54c7794",
        "forensic/runs/2024-01-07_SimPlex12/A09_S5.hid": "2f2ca744855b6c7a575fc896189d6106",
        "forensic/runs/2024-01-07_SimPlex12/_COMPLETE": "d41d8cd98f00b204e9800998ecf8427e",
        "forensic/runs/2024-01-07_SimPlex12/annotations.csv": "3b633040b6f8481c229cc9f69f016a7e",
        "forensic/runs/2024-01-07_SimPlex12/plate.txt": "9fdf19b41de69e6015a98cf53e076835",
        "gnomad/gnomad.genomes.v3.1.2.sites.chr20.vcf.bgz": "35fe957db4a0c46644c5602d8fb47551",
        "gnomad/gnomad.genomes.v3.1.sites.chrM.vcf.bgz": "c6de47516de887ea90d0b34bcce0901c",
        "gnomad/gnomad.genomes.v4.1.sites.chr21.vcf.bgz": "22f34ea4b44185479e63bf6484ba4559",
        "gnomad/gnomad.joint.v4.1.sites.chr17.vcf.bgz": "890267086f07bc1b0defe47d597a2391",
        "haplotypes/phased.chr17.vcf.gz": "fed86bcf9dc823dfb43f4d38a7f4a79d",
        "haplotypes/phased.chr20.vcf.gz": "0905cc2b79080f4087048b3bef1e66dd",
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
    """Counts of one contig: bases, ACGT bases, maximal runs of ACGT, windows of the default profile (none on chrM)."""

    length: int
    acgt_bases: int
    acgt_runs: int
    windows: int


@dataclass(frozen=True, slots=True)
class GnomadFacts:
    """Counts of one gnomAD-style file.

    Every allele counts in exactly one of ``rejects``, ``failed``, ``low_af``, ``low_an`` and ``kept``, tested in this
    order: ``failed`` did not pass FILTER, ``low_af`` has AF below 1 %, ``low_an`` has an AN below half of the file's
    maximum, of the joint file in both assays. On chrM all alleles but the rejects are kept. ``irregular`` alleles are
    not in normal form.
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
class PhasedFacts:
    """Counts of one file of phased genotypes; ``unphased`` and ``missing`` are genotypes without phase or copies."""

    people: int
    records: int
    unphased: int
    missing: int


@dataclass(frozen=True, slots=True)
class ClinvarFacts:
    """Counts of one ClinVar-style release; ``labels`` includes the records in ``rejects`` and ``other_contig``."""

    records: int
    labels: Mapping[str, int]
    rejects: Mapping[str, int]
    other_contig: int
    kept: int
    genes: int


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """Counts of changes from the first to the second release, by normalised allele, without rejects.

    ``text_changed``, ``class_changed`` and ``id_changed`` count alleles that both releases have.
    """

    added: int
    removed: int
    text_changed: int
    class_changed: int
    id_changed: int


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Counts of one corpus source.

    ``duplicates`` are records that repeat id and sequence of another, ``reused_ids`` repeat only the id, ``too_short``
    are other records without a window. ``windows`` counts windows of the default profile with seed 0 and short windows
    allowed; ``short_windows`` of them are shorter than the profile's window.
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
    """Counts of the collections of mitochondrial genomes; every record is in ``kept`` or in ``rejects``.

    The other figures count kept genomes only: ``bases``; ``ambiguous_bases``, bases other than A, C, G and T;
    ``haplogroup_stated``, genomes with a stated haplogroup; ``haplogroups``, distinct haplogroups; ``turned``, genomes
    with another start or strand than chrM; ``near_pairs``, pairs that differ in at most ten bases.
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
    """Counts of one heteroplasmy VCF.

    ``calls`` have a level above 0, and ``heteroplasmic`` of these a level below 0.95. ``missing`` counts pairs of
    genome and site without a call, whose level is ``.``. ``failed_records`` do not pass FILTER.
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
    """All counts of the sample, by contig, release, corpus source or heteroplasmy layout."""

    genome: Mapping[str, GenomeFacts]
    gnomad: Mapping[str, GnomadFacts]
    phased: Mapping[str, PhasedFacts]
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
                low_af=5172,
                low_an=101,
                kept=1497,
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
    phased=MappingProxyType(
        {
            "chr17": PhasedFacts(people=60, records=201, unphased=18, missing=60),
            "chr20": PhasedFacts(people=60, records=507, unphased=37, missing=125),
        }
    ),
    clinvar=MappingProxyType(
        {
            "2024-01-07": ClinvarFacts(
                records=3007,
                labels=MappingProxyType({"B": 297, "LB": 818, "LP": 340, "OTHER": 386, "P": 425, "VUS": 741}),
                rejects=MappingProxyType({"duplicate": 3, "iupac": 4, "missing_alt": 3, "ref_mismatch": 2}),
                other_contig=3,
                kept=2992,
                genes=28,
            ),
            "2025-01-05": ClinvarFacts(
                records=3858,
                labels=MappingProxyType({"B": 403, "LB": 1036, "LP": 507, "OTHER": 549, "P": 537, "VUS": 826}),
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
        text_changed=544,
        class_changed=297,
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
