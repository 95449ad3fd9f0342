"""Every check of the joined variants passes on what was joined and fails on the fault it is there for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from genolewm_assets.mito.variants.checks import VARIANT_CHECKS, check_variants
from genolewm_assets.mito.variants.join import join_variants, tabulate_sites
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.mito.genome_world import REFERENCE
from genolewm_assets_tests.worlds.mito.mito_alleles import Allele, clinvar, gnomad
from genolewm_assets_tests.worlds.store.changed_tables import with_value

SCHEMA, ORDER, BASES, JOINED, SITES = VARIANT_CHECKS
LAST = len(REFERENCE)


def snv(pos: int) -> Allele:
    ref = REFERENCE[pos - 1]
    return pos, ref, "ACGT"["ACGT".index(ref) ^ 2]


def deleted(pos: int, size: int) -> Allele:
    return pos, REFERENCE[pos - 1 : pos + size], REFERENCE[pos - 1]


def inserted(pos: int, bases: str) -> Allele:
    return pos, REFERENCE[pos - 1], REFERENCE[pos - 1] + bases


@dataclass(frozen=True)
class Joined:
    variants: pa.Table
    sites: pa.Table
    gnomad: pa.Table
    clinvar: pa.Table
    counts: Mapping[str, int]
    reference: str = REFERENCE

    @classmethod
    def of(cls, ours: pa.Table, theirs: pa.Table) -> Joined:
        variants, counts = join_variants(ours, theirs, REFERENCE.encode(), chrom="chrM")
        return cls(variants, tabulate_sites(variants, REFERENCE.encode(), chrom="chrM"), ours, theirs, counts)

    def check(self, *, no_gnomad: str | None = None) -> dict[str, CheckResult]:
        given = {name: getattr(self, name) for name in ("gnomad", "clinvar", "counts", "reference")}
        checks = check_variants(self.variants, self.sites, **given, no_gnomad=no_gnomad)
        assert tuple(check.name for check in checks) == VARIANT_CHECKS
        return {check.name: check for check in checks}

    def failed(self, *, no_gnomad: str | None = None) -> set[str]:
        return {name for name, check in self.check(no_gnomad=no_gnomad).items() if not check.passed}

    def changed(self, part: str, column: str, row: int, value: object) -> Joined:
        return replace(self, **{part: with_value(getattr(self, part), column, row, value)})


@pytest.fixture(scope="module")
def joined() -> Joined:
    ours = gnomad(
        (snv(100), {"max_hl": 0.5}),
        (snv(200), {"max_hl": 0.25}),
        (snv(700), {"max_hl": 0.9, "filter": "npg"}),
        (deleted(900, 3), {"max_hl": 0.75}),
        (inserted(LAST, "ACCA"), {"max_hl": 0.8}),
        (snv(2_000), {"max_hl": None}),
    )
    theirs = clinvar((snv(100), {"label": "P"}), (snv(3_000), {}), (deleted(900, 3), {}), (snv(LAST), {}))
    found = Joined.of(ours, theirs)
    assert found.counts["in_both"] == 2
    return found


def test_what_was_joined_passes(joined: Joined) -> None:
    assert joined.failed() == set()
    assert Joined.of(joined.gnomad, clinvar()).failed() == set()


def test_what_compares_nothing_fails_unless_the_catalogue_names_no_source(joined: Joined) -> None:
    why = "no_source: the catalogue names no gnomAD file of chrM"
    nothing, clinical = Joined.of(gnomad(), clinvar()), Joined.of(gnomad(), joined.clinvar)
    assert nothing.failed() == set(VARIANT_CHECKS[1:])
    assert clinical.failed() == {"sites_agree_with_alleles"}
    assert nothing.failed(no_gnomad=why) == clinical.failed(no_gnomad=why) == set()
    checks = clinical.check(no_gnomad=why)
    assert checks[SITES].figures["compared"] == 0
    assert checks[SITES].figures["not_compared"] == why
    assert checks[JOINED].figures["compared"] == joined.clinvar.num_rows


def test_rows_of_one_allele_are_no_loss() -> None:
    twice = gnomad((deleted(LAST - 3, 3), {}), (deleted(LAST - 3, 3), {"filter": "npg"}))
    found = Joined.of(twice, clinvar())
    assert found.counts["gnomad.merged"] == 1
    assert found.failed() == set()


@each_row(
    "fault",
    [
        lambda j: replace(j, variants=j.variants.drop_columns(["max_hl"])),
        lambda j: replace(j, sites=j.sites.drop_columns(["pathogenic"])),
        lambda j: j.changed("variants", "kind", 0, None),
        lambda j: j.changed("sites", "pop_hl", 0, None),
    ],
)
def test_a_schema_that_is_not_the_declared_one(joined: Joined, fault: Callable[[Joined], Joined]) -> None:
    assert fault(joined).failed() == set(VARIANT_CHECKS)


def test_alleles_out_of_order_or_twice(joined: Joined) -> None:
    order = pa.array([1, 0, *range(2, joined.variants.num_rows)])
    assert replace(joined, variants=joined.variants.take(order)).failed() == {ORDER}
    twice = replace(joined, variants=pa.concat_tables([joined.variants.slice(0, 1), joined.variants]))
    assert twice.failed() == {ORDER, JOINED}


def test_a_ref_that_the_circle_does_not_have(joined: Joined) -> None:
    site = joined.variants["pos"].to_pylist().index(700)
    wrong = "ACGT"["ACGT".index(REFERENCE[699]) ^ 1]
    assert BASES in joined.changed("variants", "ref", site, wrong).failed()
    at_the_end = joined.variants["pos"].to_pylist().index(LAST)
    over = joined.changed("variants", "ref", at_the_end, REFERENCE[-1] + REFERENCE[:2])
    assert BASES not in over.failed(), "the circle goes on behind its last base"
    past = joined.changed("variants", "ref", at_the_end, REFERENCE[-1] + "ACGT"["ACGT".index(REFERENCE[0]) ^ 1])
    assert BASES in past.failed()


@each_row("row", [0, 2, -1])
def test_a_row_that_was_lost(joined: Joined, row: int) -> None:
    kept = [n for n in range(joined.variants.num_rows) if n != row % joined.variants.num_rows]
    variants = joined.variants.take(pa.array(kept))
    sites = tabulate_sites(variants, REFERENCE.encode(), chrom="chrM")
    assert replace(joined, variants=variants, sites=sites).failed() == {JOINED}


@pytest.mark.parametrize("column", ["in_gnomad", "in_clinvar"])
def test_an_allele_that_forgot_a_source(joined: Joined, column: str) -> None:
    for row, value in enumerate(joined.variants[column].to_pylist()):
        changed = joined.changed("variants", column, row, not value)
        assert JOINED in changed.failed()


def test_an_exchange_that_keeps_the_counts(joined: Joined) -> None:
    own = joined.variants.filter(pc.and_(joined.variants["in_gnomad"], pc.invert(joined.variants["in_clinvar"])))
    at = joined.variants["pos"].to_pylist().index(own["pos"][0].as_py())
    changed = joined.changed("variants", "pos", at, 21).changed("variants", "ref", at, REFERENCE[20])
    assert JOINED in changed.failed()


@each_row("count", ["alleles", "gnomad.rows", "clinvar.rows", "gnomad.merged", "clinvar.merged"])
def test_a_wrong_count(joined: Joined, count: str) -> None:
    for wrong in (joined.counts[count] + 1, joined.counts[count] - 1):
        assert replace(joined, counts={**joined.counts, count: wrong}).failed() == {JOINED}


def test_a_shard_with_more_rows_than_were_joined(joined: Joined) -> None:
    more = pa.concat_tables([joined.gnomad, gnomad((snv(3_500), {}))])
    assert replace(joined, gnomad=more).failed() == {JOINED}


@each_row(
    ("site", "level"),
    [(100, 0.25), (100, 0.75), (200, 0.0), (700, 0.9), (2_500, 0.1), (1, 1.0)],
    ids=["too low", "too high", "lost", "of a failed allele", "of none", "more than an indel's"],
)
def test_a_wrong_level_of_the_population(joined: Joined, site: int, level: float) -> None:
    assert joined.changed("sites", "pop_hl", site - 1, level).failed() == {SITES}


def test_an_indels_level_may_stand_where_alignment_puts_it(joined: Joined) -> None:
    levels = joined.sites["pop_hl"].to_pylist()
    assert levels[LAST - 1] == pytest.approx(0.8)
    assert joined.changed("sites", "pop_hl", 904, 0.75).failed() == set()
    assert 899 <= levels.index(0.75) <= 906
    lost = joined
    for site in (n for n, level in enumerate(levels) if level == 0.75):
        lost = lost.changed("sites", "pop_hl", site, 0.0)
    assert lost.failed() == {SITES}
    assert joined.changed("sites", "pop_hl", 1_000, 0.75).failed() == {SITES}


def test_sites_of_another_circle(joined: Joined) -> None:
    assert joined.changed("sites", "ref", 40, "ACGT"["ACGT".index(REFERENCE[40]) ^ 1]).failed() == {SITES}
    turned = replace(joined, sites=pa.concat_tables([joined.sites.slice(1), joined.sites.slice(0, 1)]))
    assert turned.failed() == {SITES}
    assert replace(joined, sites=joined.sites.slice(1)).failed() == {SITES}
    assert joined.changed("sites", "pos", 40, 40).failed() == {SITES}
