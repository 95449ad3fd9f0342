"""Search for labels, review stars and alleles that the ClinVar VCF does not have, or not yet at T0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.clinvar_vcf import read_records
from genolewm_assets.audit.alleles.normal_alleles import KEY, alleles_of, keys_of, normalise_alleles
from genolewm_assets.audit.reading.package_files import TEST, TRAIN, VALIDATION, PackageFiles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import counted

_COLUMNS = ("source", *KEY, "label", "stars", "clinvar_id")
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClinvarFiles:
    """VCFs of the package's release and of T0, and by kind of leak their records that were compared already."""

    newest: Path | None
    t0: Path | None
    compared: dict[LeakKind, pa.Table] = field(default_factory=dict)


def search_labels(
    files: PackageFiles, reference: Reference, clinvar: ClinvarFiles, *, of_evaluation: bool = True
) -> Iterator[SearchResult]:
    """Compare labels with ClinVar: of evaluation and, unless training knows T0 only, of training with the release."""
    late, evaluated = files.knowledge == "T0", (VALIDATION, TEST) if of_evaluation else ()
    splits = evaluated if late else (TRAIN, *evaluated)
    newest = f"the VCF of release {files.release}"
    if splits:
        yield _compare(files, reference, splits, clinvar, kind=LeakKind.WRONG_LABEL, name=newest)
    if late:
        yield _compare(files, reference, (TRAIN,), clinvar, kind=LeakKind.LATE_LABEL, name="the VCF of T0")
    yield _search_stars(files)


def _compare(
    files: PackageFiles,
    reference: Reference,
    splits: tuple[str, ...],
    clinvar: ClinvarFiles,
    *,
    kind: LeakKind,
    name: str,
) -> SearchResult:
    method = f"label, stars and allele of {', '.join(splits)} against {name}, by {files.label_key}"
    vcf = clinvar.t0 if kind is LeakKind.LATE_LABEL else clinvar.newest
    if vcf is None:
        return SearchResult(kind, method, {"labels": 0}, Found(), (f"{name} was not given",))
    if kind not in clinvar.compared:
        clinvar.compared[kind] = _published(vcf, files, splits)
    published, found, n = clinvar.compared[kind], Found(), Counter[str]()
    for rows in _labelled(files, splits, _COLUMNS):
        _compare_rows(found, n, rows, published, reference, of_variations=files.label_key == "VariationID")
    gaps = [f"{counted(n['unnamed'], 'label')} without {files.label_key}"] if n["unnamed"] else []
    gaps += [f"{counted(n['unfit'], 'labelled allele')} not fitting the FASTA"] if n["unfit"] else []
    absent = "" if n["labels"] else "no allele has a ClinVar label"
    return SearchResult(kind, method, {"labels": n["labels"]}, found, tuple(gaps), absent=absent)


def _compare_rows(
    found: Found, n: Counter[str], rows: pa.Table, published: pa.Table, reference: Reference, *, of_variations: bool
) -> None:
    """Note labels and alleles that no published record of their identity has."""
    known = pc.unique(pc.drop_null(rows["clinvar_id"])).cast(pa.int64())
    published = published.filter(pc.is_in(published["identity"], value_set=known))
    has_label, has_allele = _agreeing(rows, published, stars=of_variations)
    is_unnamed = np.zeros(len(has_label), np.bool_)
    if not of_variations:
        is_unnamed = pc.is_null(rows["clinvar_id"]).to_numpy()
    _add(found, rows.filter(pa.array(~has_label & ~is_unnamed)), published, ("label", "stars"))
    others = rows.filter(pa.array(has_label & ~has_allele & ~is_unnamed))
    theirs = published.filter(pc.is_in(published["identity"], value_set=others["clinvar_id"].cast(pa.int64())))
    ours, known = (_named_forms(each, name, reference) for each, name in ((others, "clinvar_id"), (theirs, "identity")))
    _add(found, others.filter(pc.invert(pc.or_(pc.is_in(ours, value_set=known), pc.is_null(ours)))), published, KEY)
    n.update(labels=rows.num_rows, unnamed=int(np.count_nonzero(is_unnamed)), unfit=ours.null_count)


def _labelled(files: PackageFiles, splits: Iterable[str], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the alleles of splits with a ClinVar label, some at once; column ``split`` names the split."""
    for split in splits:
        for batch in files.variants(split, columns):
            is_labelled = pc.and_(
                pc.fill_null(pc.equal(batch["source"], "clinvar"), False), pc.is_valid(batch["label"])
            )
            ours = pa.table(batch.filter(is_labelled))
            yield ours.append_column("split", pa.array([split] * ours.num_rows, pa.string()))


def _published(vcf: Path, files: PackageFiles, splits: Iterable[str]) -> pa.Table:
    """Return the records of a VCF with an identity that a label of the splits has, as column ``identity``."""
    labelled = _labelled(files, splits, ("source", "label", "clinvar_id"))
    wanted = pa.chunked_array([rows["clinvar_id"].combine_chunks() for rows in labelled], pa.int64())
    known, identity = pc.unique(pc.drop_null(wanted)), files.label_key
    parts = [table.filter(pc.is_in(table[identity], value_set=known)) for table in read_records(vcf)]
    columns = [*KEY, "label", "stars"]
    return pa.concat_tables(parts).select([*columns, identity]).rename_columns([*columns, "identity"])


def _agreeing(rows: pa.Table, published: pa.Table, *, stars: bool) -> tuple[Bools, Bools]:
    """Tell which rows have a published record of their identity with their label (and stars), and with their allele."""
    has_label, has_allele = np.zeros(rows.num_rows, np.bool_), np.zeros(rows.num_rows, np.bool_)
    ours = pa.table(
        {
            "row": pa.array(np.arange(rows.num_rows)),
            "identity": rows["clinvar_id"].cast(pa.int64()),
            "label": rows["label"],
            "stars": pc.fill_null(rows["stars"].cast(pa.int64()), 0),
            "key": keys_of(alleles_of(rows)),
        }
    )
    theirs = published.select(["identity", "label", "stars"]).append_column("key", keys_of(published))
    pairs = ours.join(theirs, "identity", join_type="inner", right_suffix=" published", use_threads=False)
    is_same = pc.equal(pairs["label"], pairs["label published"])
    if stars:
        is_same = pc.and_(is_same, pc.equal(pairs["stars"], pairs["stars published"]))
    for agrees, mask in ((has_label, is_same), (has_allele, pc.equal(pairs["key"], pairs["key published"]))):
        agrees[pairs["row"].filter(mask).to_numpy()] = True
    return has_label, has_allele


def _named_forms(rows: pa.Table, identity: str, reference: Reference) -> pa.Array:
    """Return identity and normal form of each row as one text; null without a normal form."""
    forms = keys_of(normalise_alleles(alleles_of(rows), reference))
    return pc.binary_join_element_wise(rows[identity].combine_chunks().cast(pa.string()), forms, " ")


def _search_stars(files: PackageFiles) -> SearchResult:
    least = int(files.record.get("mix", {}).get("min_training_stars", 0))
    found, n = Found(), 0
    for batch in files.variants(TRAIN, _COLUMNS) if least else ():
        rows = pa.table(batch.filter(pc.equal(batch["source"], "clinvar")))
        rows = rows.append_column("split", pa.array([TRAIN] * rows.num_rows, pa.string()))
        n += rows.num_rows
        few = pc.less(pc.fill_null(rows["stars"], 0), least)
        _add(found, rows.filter(few), expected=f"at least {least} stars")
    absent = "" if n else "the package asks for no review stars, or trains with no ClinVar allele"
    return SearchResult(
        LeakKind.FEW_STARS, "review stars of training against packages.min_training_stars", {"labels": n}, found,
        absent=absent,
    )  # fmt: skip


def _add(
    found: Found, rows: pa.Table, published: pa.Table | None = None, columns: Sequence[str] = (), expected: str = ""
) -> None:
    """Note alleles, those that are shown with what is published of their identities."""
    for row in rows.to_pylist():
        key, shown = ":".join(str(row[name]) for name in KEY), {"expected": expected} if expected else {}
        if published is not None and found.shows(key):
            identity = pa.scalar(row["clinvar_id"], pa.int64())
            records = published.filter(pc.equal(published["identity"], identity)).select(columns).to_pylist()
            separator = ":" if columns is KEY else " "
            shown["published"] = ", ".join(sorted({separator.join(map(str, one.values())) for one in records}))
        label = f"{row['label']} {row['stars']}"
        found.add(key, split=row["split"], label=label, clinvar_id=row["clinvar_id"], **shown)
