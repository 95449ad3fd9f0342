"""Check that a written package has alleles to train on, and say what leaves it without."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import EVALUATION, HARMFUL, Holdout, Split
from genolewm_assets.package_build.rows import HARMFUL_UNDER_STARS
from genolewm_assets.packages import Package, VariantSource
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.files import JsonValue

#: What to write in the catalogue so that a holdout leaves alleles to training.
_RELEASED_BY = {
    Holdout.CHR: "Hold out fewer contigs (holdouts.contigs_validation, holdouts.contigs_test)",
    Holdout.CLINVAR: (
        "Name the genes to hold out in holdouts.clinvar_genes (an empty list holds out none), or lower "
        "holdouts.clinvar_gene_fraction"
    ),
    Holdout.HAPLOTYPES: "Lower holdouts.haplotype_fraction",
    Holdout.TEMPORAL: "Choose another pair of releases for the temporal holdout",
}


def check_training_alleles(package: Package) -> CheckResult:
    """Check that training windows hold a gnomAD allele and a P or LP ClinVar allele, if the inputs have such alleles.

    A source without an allele in the inputs is not required. A catalogue with ``packages.without_alleles: true``
    accepts a package without them. ``cause`` and ``remedy`` say why there are none, and what to write.
    """
    info = package.info
    inside = {source: info.epoch.windows_with.get(source, 0) if info.epoch else 0 for source in VariantSource}
    missing = [source for source in VariantSource if info.counts.get(f"alleles.{source}.in", 0) and not inside[source]]
    figures: dict[str, JsonValue] = {f"windows_with_{source}_alleles": n for source, n in inside.items()}
    figures["declared"] = info.without_alleles
    causes = [_cause(package, source) for source in missing]
    if missing:
        figures["cause"] = "; ".join(cause for cause, _ in causes)
        remedies = dict.fromkeys(remedy for _, remedy in causes)
        figures["remedy"] = f"{'; '.join(remedies)}; or declare it in the catalogue (packages.without_alleles: true)"
    rows = [
        {
            "source": source,
            "alleles_in_the_source": info.counts.get(f"alleles.{source}.in", 0),
            "expected": "at least 1 in a training window",
            "got": cause,
        }
        for source, (cause, _) in zip(missing, causes, strict=True)
    ]
    passed = not missing or info.without_alleles
    return CheckResult("training_alleles_present", passed=passed, figures=figures, rows=rows)


def _cause(package: Package, source: VariantSource) -> tuple[str, str]:
    """Return why no training window holds an allele of a source, and what to write in the catalogue."""
    what = "gnomAD allele" if source is VariantSource.GNOMAD else "P or LP ClinVar allele"
    if offered := _alleles(package, Split.TRAIN, source).num_rows:
        widen = "Choose window tracks and contigs that leave windows around the alleles"
        return f"no {what} of the {offered:,} in train lies in a training window", widen
    if few := package.info.counts.get(f"alleles.{source}.{HARMFUL_UNDER_STARS}", 0):
        least = package.info.mix.min_training_stars
        cause = f"no {what} is left for training: {few:,} have fewer than {least} review stars"
        return cause, "Lower packages.min_training_stars"
    held = Counter(name for split in EVALUATION for name in _alleles(package, split, source)["holdout"].to_pylist())
    if not held:
        return f"the source has no {what} on a contig with windows", "Name a source that has some"
    holdout, n = held.most_common(1)[0]
    intervals = package.holdouts("intervals", ["holdout", "name"])
    names = pc.unique(intervals["name"].filter(pc.equal(intervals["holdout"], holdout))).to_pylist()
    some = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
    units = f" (its only unit is {some})" if len(names) == 1 else f" ({len(names):,} units: {some})" if names else ""
    return f"no {what} is left for training: {n:,} are held out by {holdout}{units}", _RELEASED_BY[Holdout(holdout)]


def _alleles(package: Package, split: Split, source: VariantSource) -> pa.Table:
    where = pc.equal(pc.field("source"), str(source))
    if source is VariantSource.CLINVAR:
        where &= pc.field("label").isin(sorted(HARMFUL))
    return package.variants(split, ["holdout"], where=where)
