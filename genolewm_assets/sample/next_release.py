"""A further simulated ClinVar release in the listing of the sample, derived from the newest good one there.

A *bad* release states reference bases that are not those of the genome, as a file made for another assembly does: its
shard fails ``ref_mismatches_rare`` and nothing is built from it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.sample.alleles import SOURCE, Assertion, Term, next_assertion
from genolewm_assets.sample.bgzip import compress_blocks, md5_line
from genolewm_assets.sample.genome import Draws
from genolewm_assets.sample.writer import LISTING, write_sample
from genolewm_assets.store.artefacts import Root
from genolewm_assets.store.files import write_atomic

_INTERVAL = timedelta(weeks=1)
_NAME = "clinvar_{:%Y%m%d}.vcf.gz"
#: Header line of a bad release; no release is derived from one.
_BAD = "##simulated=reference bases of another assembly"
#: Percentage of alleles whose classification is drawn again, that are gone, and that a new allele is placed beside.
_REDRAWN, _GONE, _JOINED = 20, 1, 2
#: Percentage of the substitutions of a bad release whose reference base is another one.
_WRONG = 5
#: Consequences that hold for any base at a position.
_POSITIONAL = ("intron_variant", "5_prime_UTR_variant", "3_prime_UTR_variant", "non-coding_transcript_variant")
_NEW_REVIEW = "criteria_provided,_single_submitter"


@dataclass(frozen=True, slots=True)
class NextRelease:
    """A release that was added to the listing."""

    #: ``day``, ``derived_from``: dates of the release and of the one that it was derived from, ISO format.
    day: str
    derived_from: str
    #: The VCF; its checksum lies beside it.
    file: Path
    #: ``reclassified``, ``added``, ``removed``, ``wrong_ref``: numbers of alleles with another class, new alleles,
    #: alleles that are gone, and alleles with a wrong reference base (0 in a good release).
    reclassified: int
    added: int
    removed: int
    wrong_ref: int


@dataclass(frozen=True, slots=True)
class _Record:
    """One line of a ClinVar VCF; ``info`` is its INFO field."""

    fields: tuple[str, ...]
    info: Mapping[str, str]

    @classmethod
    def parse(cls, line: str) -> _Record:
        *fields, info = line.split("\t")
        return cls(tuple(fields), {name: value for name, _, value in (each.partition("=") for each in info.split(";"))})

    def text(self) -> str:
        return "\t".join([*self.fields, ";".join(f"{name}={value}" for name, value in self.info.items())])

    def get(self, name: str) -> str:
        return self.info.get(name, "")

    @property
    def is_snv(self) -> bool:
        return all(base in ("A", "C", "G", "T") for base in self.fields[3:5])


def add_next_release(root_dir: Path, *, bad: bool = False) -> NextRelease:
    """Write the ClinVar release of the week after the newest one into the listing of a root's sample.

    Parameters
    ----------
    root_dir
        The root of a sample; sources that are missing are written first.
    bad
        Whether the release states wrong reference bases.

    Raises
    ------
    CorruptResourceError
        If no release of the sample in the listing can be read.
    BusyError, ResourceError
        If another process is adding a release; if the listing cannot be written, which is unchanged then.

    Notes
    -----
    Equal listings give equal bytes. The checksum is written before the file, and the file appears at once, so that a
    reader of the listing never sees an unfinished release.
    """
    write_sample(root_dir)
    root, listing = Root(root_dir), root_dir / LISTING
    with root.lock(LISTING) as lease, root.storage_errors(LISTING):
        days = sorted(filter(None, (_day_of(path) for path in listing.iterdir())))
        derived_from, lines = _newest_good(listing, days)
        day = days[-1] + _INTERVAL
        text, release = _derive(lines, day, derived_from, listing / _NAME.format(day), bad=bad)
        packed, file = compress_blocks(text.encode("ascii")), release.file
        with lease.fenced():
            write_atomic(file.with_name(f"{file.name}.md5"), md5_line(packed, file.name))
            write_atomic(file, packed)
    return release


def _day_of(path: Path) -> date | None:
    """Return the date in the name of a release, with or without words after the date; None for another name."""
    if not (path.name.startswith("clinvar_") and path.name.endswith(".vcf.gz")):
        return None
    try:
        return datetime.strptime(path.name[8:16], "%Y%m%d").date()  # noqa: DTZ007 - a date has no time zone
    except ValueError:
        return None


def _newest_good(listing: Path, days: Sequence[date]) -> tuple[date, list[str]]:
    """Return date and lines of the newest release that the sample wrote and that is not a bad one."""
    for day in reversed(days):
        try:
            lines = gzip.decompress((listing / _NAME.format(day)).read_bytes()).decode("ascii").splitlines()
        except (OSError, EOFError, ValueError, zlib.error):
            continue  # a file that somebody else put there
        if SOURCE in lines and _BAD not in lines:
            return day, lines
    problem, remedy = "has no release of the sample that can be read", "Remove the files in it: they are put back"
    raise CorruptResourceError(str(listing), problem, remedy=remedy)


def _derive(lines: Sequence[str], day: date, derived_from: date, file: Path, *, bad: bool) -> tuple[str, NextRelease]:
    """Return the text of the release of a day, and what it changes."""
    header = [line for line in lines if line.startswith("#")]
    records = [_Record.parse(line) for line in lines[len(header) :]]
    draws = Draws(0, 70, day.toordinal())
    kept = [record for record, gone in zip(records, _drawn(draws, len(records), _GONE), strict=True) if not gone]
    redrawn = [
        _reclassified(record, draws) if drawn else record
        for record, drawn in zip(kept, _drawn(draws, len(kept), _REDRAWN), strict=True)
    ]
    added = list(_new_records(redrawn, draws))
    order = {record.fields[0]: number for number, record in reversed(list(enumerate(records)))}
    written = sorted(
        [*redrawn, *added], key=lambda r: (order[r.fields[0]], int(r.fields[1]), *r.fields[3:5], r.fields[2])
    )
    wrong = _drawn(draws, len(written), _WRONG if bad else 0)
    spoilt = [_with_wrong_ref(r) if w and r.is_snv else r for r, w in zip(written, wrong, strict=True)]
    dated = [f"##fileDate={day:%Y-%m-%d}" if line.startswith("##fileDate=") else line for line in header]
    head = [*dated[:-1], *([_BAD] if bad else []), dated[-1]]
    release = NextRelease(
        day=day.isoformat(),
        derived_from=derived_from.isoformat(),
        file=file,
        reclassified=sum(a is not b for a, b in zip(kept, redrawn, strict=True)),
        added=len(added),
        removed=len(records) - len(kept),
        wrong_ref=sum(a is not b for a, b in zip(written, spoilt, strict=True)),
    )
    return "\n".join([*head, *(record.text() for record in spoilt)]) + "\n", release


def _drawn(draws: Draws, n: int, percent: int) -> list[bool]:
    drawn: list[bool] = (draws.uniform(n) < percent / 100).tolist()
    return drawn


def _reclassified(record: _Record, draws: Draws) -> _Record:
    """Return a record with the assertion that follows its own; the same record if that does not change."""
    try:
        before = Assertion(Term(record.get("CLNSIG")), record.get("CLNREVSTAT"))
    except ValueError:
        return record  # without classification, or in the wording of older releases
    after = next_assertion(before, draws)
    if after.term is before.term:
        return record
    info = {**record.info, "CLNSIG": str(after.term), "CLNREVSTAT": after.review}
    info.pop("CLNSIGCONF", None)
    if after.term is Term.CONFLICT:
        info["CLNSIGCONF"] = "Uncertain_significance(1)|Likely_benign(1)"
    return replace(record, info=dict(sorted(info.items())))


def _new_records(records: Sequence[_Record], draws: Draws) -> Iterator[_Record]:
    """Yield new alleles: another base at the position of a substitution whose consequence does not depend on it."""
    taken = {(*record.fields[:2], *record.fields[3:5]) for record in records}
    next_id = 1 + max(int(record.fields[2]) for record in records)
    for donor, drawn in zip(records, _drawn(draws, len(records), _JOINED), strict=True):
        chrom, pos, _, ref, alt, *rest = donor.fields
        if not (drawn and donor.is_snv and donor.get("MC").endswith(_POSITIONAL)):
            continue
        for base in "ACGT":
            if base not in (ref, alt) and (chrom, pos, ref, base) not in taken:
                info = {**donor.info, "ALLELEID": str(next_id - 10_000_000), "CLNREVSTAT": _NEW_REVIEW}
                info |= {"CLNSIG": str(Term.VUS), "CLNHGVS": donor.get("CLNHGVS")[: -len(alt)] + base}
                for name in ("RS", "CLNSIGCONF", "CLNSIGINCL"):
                    info.pop(name, None)
                yield _Record((chrom, pos, str(next_id), ref, base, *rest), info)
                next_id += 1
                break


def _with_wrong_ref(record: _Record) -> _Record:
    chrom, pos, name, ref, alt, *rest = record.fields
    wrong = next(base for base in "ACGT" if base not in (ref, alt))
    return replace(record, fields=(chrom, pos, name, wrong, alt, *rest))
