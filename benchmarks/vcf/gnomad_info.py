"""INFO fields of simulated gnomAD records, with names and formats of the v4.1 genomes files.

Counts are drawn by ancestry group and sex, and all totals are sums of them, so that the figures of a record are
consistent. Not here: positions and alleles (:mod:`benchmarks.vcf.simulated_genome`), files
(:mod:`benchmarks.vcf.gnomad_vcf`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Number of samples of each ancestry group in the gnomAD v4 genomes.
SAMPLES: Mapping[str, int] = {
    "afr": 20_744,
    "ami": 456,
    "amr": 7_639,
    "asj": 1_736,
    "eas": 2_592,
    "fin": 5_312,
    "mid": 158,
    "nfe": 34_008,
    "remaining": 1_047,
    "sas": 2_413,
}
_MAXIMUM_OVER = ("afr", "amr", "eas", "mid", "nfe", "sas")
_CULPRITS = ("AS_FS", "AS_MQ", "AS_QD", "AS_SOR", "AS_ReadPosRankSum", "AS_MQRankSum")
_CONSEQUENCES = (
    ("intron_variant", "MODIFIER"),
    ("upstream_gene_variant", "MODIFIER"),
    ("downstream_gene_variant", "MODIFIER"),
    ("intron_variant&non_coding_transcript_variant", "MODIFIER"),
    ("non_coding_transcript_exon_variant", "MODIFIER"),
    ("3_prime_UTR_variant", "MODIFIER"),
    ("missense_variant", "MODERATE"),
    ("synonymous_variant", "LOW"),
)
_BIOTYPES = ("protein_coding", "lncRNA", "retained_intron", "nonsense_mediated_decay", "processed_transcript")

Texts = list[str | None]
Ints = NDArray[np.int64]


class Field(NamedTuple):
    """One INFO field: its declaration, and its text per record (``""`` for a flag that is set), None if absent."""

    name: str
    number: str
    type: str
    texts: Texts


class _Counts(NamedTuple):
    """AC, AN and number of homozygotes by sample set, each int64, shape (alleles,)."""

    ac: dict[str, Ints]
    an: dict[str, Ints]
    nhomalt: dict[str, Ints]


def draw_info(
    rng: np.random.Generator, frequency: NDArray[np.float64], alts: NDArray[np.int64], *, wide: bool
) -> list[Field]:
    """Draw the INFO fields of records.

    Parameters
    ----------
    frequency
        Expected AF of each record's first allele; float64, shape (records,).
    alts
        Number of ALTs of each record, 1 or 2; int64, shape (records,).
    wide
        Whether all fields of a v4.1 genomes file are drawn, or only counts and group frequencies.

    Returns
    -------
    list of Field
        Fields in file order, with one text per record.
    """
    called = _draw_called(rng, len(frequency))
    fields = _allele_fields(rng, frequency, called, wide=wide)
    two = np.flatnonzero(alts == 2)
    if len(two):
        rare = 10 ** rng.uniform(-5, -2.1, len(two))
        second = _allele_fields(rng, rare, called[two], wide=wide)
        for first, other in zip(fields, second, strict=True):
            if first.number == "A":
                for row, text in zip(two.tolist(), other.texts, strict=True):
                    first.texts[row] = f"{first.texts[row] or '.'},{text or '.'}"
    flags = [_flag(rng, name, len(frequency), share) for name, share in (("lcr", 0.04), ("segdup", 0.03))]
    if not wide:
        return [*fields, *flags]
    return [*fields, *_site_fields(rng, len(frequency), alts), *flags, _vep(rng, len(frequency))]


def render(fields: list[Field]) -> list[str]:
    """Return the INFO text of each record."""
    columns = []
    for name, _, kind, texts in fields:
        if kind == "Flag":
            columns.append([None if text is None else name for text in texts])
        else:
            columns.append([None if text is None else f"{name}={text}" for text in texts])
    return [";".join(filter(None, row)) for row in zip(*columns, strict=True)]


def _draw_called(rng: np.random.Generator, records: int) -> Ints:
    """Return AN by group and sex, int64, shape (records, 2 * groups): even numbers, XX before XY in each group."""
    sizes = np.repeat(np.array(list(SAMPLES.values())), 2) * np.tile([0.51, 0.49], len(SAMPLES))
    poor = rng.random(records) < 0.03
    rate = np.where(poor, rng.uniform(0.2, 0.6, records), 1 - rng.exponential(0.004, records).clip(max=0.3))
    return 2 * rng.binomial(np.maximum(sizes, 1).astype(np.int64), rate[:, None]).clip(min=1)


def _draw_counts(rng: np.random.Generator, frequency: NDArray[np.float64], called: Ints) -> _Counts:
    spread = np.repeat(rng.normal(0, 0.5, (len(frequency), len(SAMPLES))), 2, axis=1)
    share = (frequency[:, None] * np.exp(spread)).clip(max=0.999)
    carried = rng.binomial(called, share)
    homozygous = np.minimum(rng.binomial(called // 2, share**2), carried // 2)

    def summed(strata: Ints) -> dict[str, Ints]:
        sets = {"": strata.sum(axis=1), "XX": strata[:, ::2].sum(axis=1), "XY": strata[:, 1::2].sum(axis=1)}
        for index, group in enumerate(SAMPLES):
            xx, xy = strata[:, 2 * index], strata[:, 2 * index + 1]
            sets |= {f"{group}_XX": xx, group: xx + xy, f"{group}_XY": xy}
        return sets | {"raw": strata.sum(axis=1)}

    counts = _Counts(summed(carried), summed(called), summed(homozygous))
    counts.an["raw"] += 2 * rng.integers(0, 200, len(frequency))
    counts.ac["raw"] += rng.integers(0, 2, len(frequency))
    return counts


def _allele_fields(
    rng: np.random.Generator, frequency: NDArray[np.float64], called: Ints, *, wide: bool
) -> list[Field]:
    """Return the fields with a value per allele, and the AN fields among them in file order."""
    counts = _draw_counts(rng, frequency, called)
    fields: list[Field] = []
    for name in counts.ac if wide else ["", *SAMPLES]:
        suffix = f"_{name}" if name else ""
        ac, an = counts.ac[name], counts.an[name]
        fields.append(Field(f"AC{suffix}", "A", "Integer", _ints(ac)))
        if wide or not name:
            fields.append(Field(f"AN{suffix}", "1", "Integer", _ints(an)))
        fields.append(Field(f"AF{suffix}", "A", "Float", _exponents(ac / an)))
        if wide or not name:
            fields.append(Field(f"nhomalt{suffix}", "A", "Integer", _ints(counts.nhomalt[name])))
        if not name:
            fields.extend(_grpmax(counts))
    quality = _quality(rng, len(frequency))
    return [*fields, *(quality if wide else quality[:3])]


def _grpmax(counts: _Counts) -> list[Field]:
    rows = np.arange(len(counts.ac[""]))
    shares = np.stack([counts.ac[group] / counts.an[group] for group in _MAXIMUM_OVER], axis=1)
    best, seen = shares.argmax(axis=1), shares.max(axis=1) > 0

    def picked(of: dict[str, Ints]) -> Ints:
        return np.stack([of[group] for group in _MAXIMUM_OVER], axis=1)[rows, best]

    names: Texts = [_MAXIMUM_OVER[index] for index in best.tolist()]
    return [
        Field("grpmax", "A", "String", _where(seen, names)),
        Field("AC_grpmax", "A", "Integer", _where(seen, _ints(picked(counts.ac)))),
        Field("AF_grpmax", "A", "Float", _where(seen, _exponents(shares[rows, best]))),
        Field("AN_grpmax", "A", "Integer", _where(seen, _ints(picked(counts.an)))),
        Field("nhomalt_grpmax", "A", "Integer", _where(seen, _ints(picked(counts.nhomalt)))),
    ]


def _quality(rng: np.random.Generator, records: int) -> list[Field]:
    """Return the quality and score fields of alleles."""
    scales: Mapping[str, tuple[float, float]] = {
        "AS_FS": (3.0, 3.0),
        "AS_MQ": (58.0, 3.0),
        "AS_MQRankSum": (0.0, 0.8),
        "AS_QD": (14.0, 5.0),
        "AS_ReadPosRankSum": (0.2, 0.7),
        "AS_SOR": (0.8, 0.4),
        "AS_VQSLOD": (4.0, 6.0),
        "AS_pab_max": (0.7, 0.3),
        "inbreeding_coeff": (0.0, 0.01),
        "faf95": (1e-3, 1e-3),
        "faf99": (1e-3, 1e-3),
        **{
            f"{name}_{group}": (1e-3, 1e-3)
            for group in ("afr", "amr", "eas", "nfe", "sas")
            for name in ("faf95", "faf99")
        },
    }
    fields = [
        Field(name, "A", "Float", _exponents(rng.normal(mean, sd, records))) for name, (mean, sd) in scales.items()
    ]
    return [
        *fields,
        Field("AS_QUALapprox", "A", "Integer", _ints(rng.integers(30, 90_000, records))),
        Field("AS_VarDP", "A", "Integer", _ints(rng.integers(20, 60_000, records))),
        Field("AS_culprit", "A", "String", _choice(rng, _CULPRITS, records)),
        Field("cadd_raw_score", "1", "Float", _exponents(rng.normal(0.1, 0.6, records))),
        Field("cadd_phred", "1", "Float", _exponents(rng.exponential(5, records))),
        Field("phylop", "1", "Float", _exponents(rng.normal(0, 1, records))),
        Field("pangolin_largest_ds", "1", "Float", _exponents(rng.normal(0, 0.05, records))),
        Field("spliceai_ds_max", "1", "Float", _exponents(rng.random(records) ** 4)),
    ]


def _site_fields(rng: np.random.Generator, records: int, alts: Ints) -> list[Field]:
    measured = (("FS", 3.0), ("MQ", 58.0), ("MQRankSum", 0.2), ("QD", 14.0), ("ReadPosRankSum", 0.4), ("SOR", 0.8))
    histograms = (
        ("gq_hist_alt", 20),
        ("dp_hist_alt", 20),
        ("ab_hist_alt", 20),
        ("gq_hist_all", 20),
        ("dp_hist_all", 20),
    )
    return [
        *(Field(name, "1", "Float", _exponents(rng.normal(mean, mean / 4, records))) for name, mean in measured),
        Field("QUALapprox", "1", "Integer", _ints(rng.integers(30, 90_000, records))),
        Field("VarDP", "1", "Integer", _ints(rng.integers(20, 60_000, records))),
        Field("n_alt_alleles", "1", "Integer", _ints(alts)),
        Field("VRS_Allele_IDs", ".", "String", _digests(rng, records)),
        *(Field(f"{name}_bin_freq", "1", "String", _histogram(rng, records, bins)) for name, bins in histograms),
        Field("dp_hist_alt_n_larger", "1", "Integer", _ints(rng.integers(0, 100, records))),
        Field("age_hist_het_bin_freq", "1", "String", _histogram(rng, records, 10)),
        Field("age_hist_hom_bin_freq", "1", "String", _histogram(rng, records, 10)),
    ]


def _digests(rng: np.random.Generator, records: int) -> Texts:
    letters = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype="S1")
    drawn = letters[rng.integers(0, 64, (records, 2, 32))].view("S32").reshape(records, 2).astype(str)
    return [f"ga4gh:VA.{ref},ga4gh:VA.{alt}" for ref, alt in drawn.tolist()]


def _histogram(rng: np.random.Generator, records: int, bins: int) -> Texts:
    """Return histograms with most counts in a few bins, like those of read depths and qualities."""
    centre = rng.uniform(0.3, 0.9, (records, 1)) * bins
    height = 10 ** rng.uniform(1, 5, (records, 1)) * np.exp(-(((np.arange(bins) - centre) / (bins / 6)) ** 2))
    return ["|".join(map(str, row)) for row in rng.poisson(height).tolist()]


def _vep(rng: np.random.Generator, records: int) -> Field:
    """Return the field ``vep``: per record the consequences on one to three transcripts of a gene, in VEP's format."""
    texts: Texts = []
    genes = rng.integers(0, 20_000, records).tolist()
    for gene, transcripts in zip(genes, rng.integers(1, 4, records).tolist(), strict=True):
        kinds = rng.integers(0, (len(_CONSEQUENCES), len(_BIOTYPES), 400_000, 30), (transcripts, 4)).tolist()
        texts.append(",".join(_transcript(gene, number, kind) for number, kind in enumerate(kinds)))
    return Field("vep", ".", "String", texts)


def _transcript(gene: int, number: int, drawn: list[int]) -> str:
    consequence, biotype, name, exon = drawn
    effect, impact = _CONSEQUENCES[consequence]
    distance = name % 5_000 if consequence in {1, 2} else ""
    return (
        f"A|{effect}|{impact}|GENE{gene}|ENSG{gene:011d}|Transcript|ENST{name:011d}|{_BIOTYPES[biotype]}||"
        f"{exon}/{exon + 4}|ENST{name:011d}.{number + 1}:c.{name % 4_000}+{exon * 31}G>A|||||||1|{distance}|"
        f"{1 - 2 * (gene % 2)}||SNV|HGNC|HGNC:{gene}|{'YES' if number == 0 else ''}|||||||||||||"
    )


def _flag(rng: np.random.Generator, name: str, records: int, share: float) -> Field:
    return Field(name, "0", "Flag", ["" if is_set else None for is_set in (rng.random(records) < share).tolist()])


def _ints(values: Ints) -> Texts:
    return list(map(str, values.tolist()))


def _exponents(values: NDArray[np.float64]) -> Texts:
    write: Callable[[float], str] = "{:.5e}".format
    return list(map(write, values.tolist()))


def _choice(rng: np.random.Generator, among: tuple[str, ...], records: int) -> Texts:
    return [among[index] for index in rng.integers(0, len(among), records).tolist()]


def _where(present: NDArray[np.bool_], texts: Texts) -> Texts:
    return [text if is_there else None for is_there, text in zip(present.tolist(), texts, strict=True)]
