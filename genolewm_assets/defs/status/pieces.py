"""How many pieces of each corpus source are current, missing, stale or failed, whatever their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from genolewm_assets.defs.runtime import BY_CORPUS_PIECE, Currency, PublishingAsset
from genolewm_assets.errors import counted
from genolewm_assets.store.artefacts import ArtefactId
from genolewm_assets.windows.corpus import parse_piece

#: States of a piece in the order of a line; of one that failed, a former version may be published.
_STATES = ("current", "missing", "stale", "not compared", "failed")


@dataclass(frozen=True, slots=True)
class SourcePieces:
    """The pieces of one source in one asset; each is counted once."""

    source: str
    asset: str
    pieces: int
    current: int
    missing: int
    stale: int
    not_compared: int
    failed: int

    def text(self) -> str:
        """Return the numbers that are not 0."""
        numbers = (self.current, self.missing, self.stale, self.not_compared, self.failed)
        return ", ".join(f"{number:,} {state}" for number, state in zip(numbers, _STATES, strict=True) if number)


def count_pieces_by_source(
    assets: Iterable[PublishingAsset],
    expected: Mapping[str, Sequence[str | None]],
    surveyed: Iterable[Currency],
    published: set[tuple[str, str | None]],
    failed: set[ArtefactId],
) -> Iterator[SourcePieces]:
    """Yield the pieces of each source, in the order of their names, for each asset that has them."""
    compared = {each.artefact: each.state for each in surveyed}
    found: dict[tuple[str, str], Counter[str]] = {}
    for asset in assets:
        for key in expected[asset.key] if asset.partitions is BY_CORPUS_PIECE else ():
            artefact, state = ArtefactId(asset.key, key), "current"
            if artefact in failed:
                state = "failed"
            elif (asset.key, key) not in published:
                state = "missing"
            elif (outdated := compared.get(artefact)) in ("stale", "not compared"):
                state = str(outdated)
            found.setdefault((str(parse_piece(str(key))[0]), asset.key), Counter())[state] += 1
    for (source, asset_key), counts in sorted(found.items()):
        yield SourcePieces(source, asset_key, counts.total(), *(counts[state] for state in _STATES))


def piece_rows(pieces: Sequence[SourcePieces]) -> Iterator[tuple[str, ...]]:
    """Yield one row per source: its name, the number of its pieces, and what became of them in each asset."""
    for source in dict.fromkeys(each.source for each in pieces):
        own = [each for each in pieces if each.source == source]
        yield source, counted(own[0].pieces, "piece"), *(f"{each.asset}: {each.text()}" for each in own)
