"""States of edited and unedited windows: what a causal encoder must give, and the mistakes that show in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.audit.emitted import EmittedCounts, read_edits
from genolewm_assets.audit.reading.package_files import open_files
from genolewm_assets.audit.reading.reference import Reference, encode
from genolewm_assets.audit.report import SearchResult, Verdict
from genolewm_assets.audit.states import STATE_TUPLES, Encode, search_states
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets_tests.audit.emitted_batches import emitted_batch
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld

BLOCK, SIZE, EDITED = 8, 600, 303
WINDOW = world.SEQUENCES["chr17"][3_000 : 3_000 + SIZE].decode()
TARGET = WINDOW[:EDITED] + world.other_base(WINDOW[EDITED]) + WINDOW[EDITED + 1 :]


def tokens_of(sequence: str) -> NDArray[np.int64]:
    ids: NDArray[np.int64] = encode(sequence).reshape(-1, 6).astype(np.int64) @ 4 ** np.arange(5, -1, -1)
    return ids


def blocks_of(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of every eight tokens; the last block of 100 tokens has four."""
    return np.array([states[at : at + BLOCK].mean(axis=0) for at in range(0, len(states), BLOCK)])


def causal(sequences: Sequence[str]) -> NDArray[np.float64]:
    """Encode: a token's state is a mean over it and those before it."""
    per_token = [np.stack([tokens_of(text), tokens_of(text) % 7 - 3], axis=1) for text in sequences]
    return np.array([blocks_of(one.cumsum(axis=0) / np.arange(1, len(one) + 1)[:, None]) for one in per_token])


def looking_back(sequences: Sequence[str]) -> NDArray[np.float64]:
    """Encode as if the window were read from its end, so that all before an edit changes."""
    return np.array([np.repeat(causal([text])[0][-1:], 13, axis=0) for text in sequences])


def unaware(sequences: Sequence[str]) -> NDArray[np.float64]:
    """Encode the unedited window, whatever is given."""
    return causal([WINDOW] * len(sequences))


def batch(source_states: object = None, **changes: object) -> SimpleNamespace:
    place = {"contig": "chr17", "window_start": 3_000, "strand": "+", "window_id": "0123456789", "origin": "reference"}
    one = {"locus_token": EDITED // 6, "block_start": 4, "block_stop": 9, "source_window": WINDOW} | place | changes
    target = str(one.pop("target", TARGET))
    tokens = tokens_of(target).astype(np.int16)[None]
    return SimpleNamespace(
        tuples=[SimpleNamespace(**one)], target_tokens=tokens, block_tokens=BLOCK, epoch=1, source_states=source_states
    )


def search(audited: AuditedWorld, encoder: Encode | None, *batches: Any, is_causal: bool = True) -> SearchResult:
    files = open_files(audited.package)
    return search_states(files, encoder, progress=NO_PROGRESS, draw=lambda package: batches, is_causal=is_causal)


def problems(result: SearchResult) -> set[str]:
    return {key.partition(": ")[2] for key in result.found.keys}


def test_states_of_a_causal_encoder(audited: AuditedWorld) -> None:
    pooled = causal([WINDOW])[0][4:9].mean(axis=0)[None].astype(np.float32)
    result = search(audited, causal, batch(pooled))
    assert (result.verdict, result.reason) == (Verdict.CLEAN, "nothing found")
    assert result.searched == {"tuples": 1, "untouched blocks": 6, "cached states": 1}


def test_the_last_block_weighs_less(audited: AuditedWorld) -> None:
    states = causal([WINDOW])[0]
    by_tokens = np.average(states[10:13], axis=0, weights=[8, 8, 4])[None].astype(np.float32)
    span = {"block_start": 10, "block_stop": 13}
    assert search(audited, causal, batch(by_tokens, **span)).verdict is Verdict.CLEAN
    by_blocks = states[10:13].mean(axis=0)[None].astype(np.float32)
    assert problems(search(audited, causal, batch(by_blocks, **span))) == {"the cached state is another"}


def test_mistakes_that_show_in_states(audited: AuditedWorld) -> None:
    assert problems(search(audited, looking_back, batch())) == {"states before the edit differ"}
    assert problems(search(audited, unaware, batch())) == {"the edit changes no state"}
    assert problems(search(audited, causal, batch(target=WINDOW))) == {"the edit changes no state"}
    # As geno-lewm 0.2.1 did: the source pooled over the window, the target around the edit.
    whole = np.average(causal([WINDOW])[0], axis=0, weights=[8] * 12 + [4])[None]
    assert problems(search(audited, causal, batch(whole))) == {"the cached state is another"}
    for other in (np.full((1, 2), np.nan), np.zeros((1, 3))):
        assert problems(search(audited, causal, batch(other))) == {"the cached state is another"}


def test_what_cannot_be_compared(audited: AuditedWorld) -> None:
    without = search(audited, None, batch())
    assert (without.verdict, without.searched["tuples"]) == (Verdict.NOT_APPLICABLE, 0)
    both = search(audited, looking_back, batch(), is_causal=False)
    assert (both.verdict, both.searched["untouched blocks"]) == (Verdict.CLEAN, 0)
    assert "not compared before the edit" in both.method
    assert problems(search(audited, unaware, batch(), is_causal=False)) == {"the edit changes no state"}
    first = world.other_base(WINDOW[0]) + WINDOW[1:]
    assert search(audited, causal, batch(target=first)).reason == "no edit has a whole block before it"

    def refused(package: Path) -> Iterator[Any]:
        raise ConfigurationError("encoder", "another one")
        yield

    result = search_states(open_files(audited.package), causal, progress=NO_PROGRESS, draw=refused)
    assert result.reason == "states cannot be compared (encoder: another one.)"
    assert result.verdict is Verdict.INCONCLUSIVE


def test_edits_that_were_not_made_or_lie_elsewhere(audited: AuditedWorld) -> None:
    counts, place = EmittedCounts(), {"blocks": (4, 9), "block_tokens": BLOCK, "locus_token": EDITED // 6}
    edited = [{}, {"locus_token": 51}, {"blocks": (7, 9)}, {"blocks": (4, 6)}, {"blocks": (6, 7)}]
    with Reference(audited.fasta) as reference:
        for target, changes in (*((TARGET, changes) for changes in edited), (WINDOW, {"locus_token": 3})):
            batch = emitted_batch(WINDOW, target, 3_000, **(place | changes))  # type: ignore[arg-type]
            read_edits(batch, reference, counts)  # type: ignore[arg-type]
    rows = {row["what"]: row for row in counts.false_edits.rows}
    assert {what: [value for name, value in row.items() if name != "what"] for what, row in rows.items()} == {
        "reference chr17:3000 token 3": ["nowhere"],
        "reference chr17:3000 token 51": ["at token 50"],
        "reference chr17:3000 token 50": ["[7, 9)", 6],
    }


@pytest.mark.model
def test_a_package_by_a_real_encoder(audited: AuditedWorld, tmp_path: Path) -> None:
    encoders.write_tiny_llama(tmp_path / "model")
    encoder = encoders.CausalLMStateEncoder(tmp_path / "model")
    result = search_states(open_files(audited.package), encoder.encode_edited, progress=NO_PROGRESS)
    assert (result.verdict, result.reason) == (Verdict.CLEAN, "nothing found")
    assert result.searched["tuples"] == STATE_TUPLES
    assert result.searched["untouched blocks"] > 0
