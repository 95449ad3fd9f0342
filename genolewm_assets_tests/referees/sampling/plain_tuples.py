"""The plain sampler and the tuples made from its edits, compared with the batches of the product's stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import (
    EDIT_SOURCE_CODES,
    AlleleIndex,
    DrawKey,
    EditSource,
    Haplotype,
    HeldSequences,
    SamplingRules,
    WindowRecord,
)
from genolewm_assets.edits.allele_index import LABEL_CODES
from genolewm_assets.errors import EditError
from genolewm_assets.genome import CLASSES, TOKEN_BP, RelEdit, encode_sequence
from genolewm_assets.states import Pooling
from genolewm_assets.training.batches import (
    ALLELE_BP,
    CONTIG_CODES,
    EDIT_PLACES,
    EDIT_TYPE_CODES,
    MISSING,
    TrainingBatch,
    edit_arrays,
)
from genolewm_assets.training.sampler import BatchSampler
from genolewm_assets.training.stream import RandomStream, StreamSettings, Visits
from genolewm_assets.training.tuples import Phase, Tokens, TrainingTuple, encode_tokens
from genolewm_assets_tests.referees.sampling.plain_sampler import EditSampler, SampledHaplotype
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows


def plan_codes(plans: Sequence[Sequence[EditSource]]) -> NDArray[np.int8]:
    return np.array([[EDIT_SOURCE_CODES[source] for source in plan] for plan in plans], dtype=np.int8)


class Samplers:
    """The plain sampler and the product's stream on the same windows; ``seen`` counts redraws and sizes."""

    def __init__(
        self,
        windows: SplitWindows,
        real: Mapping[EditSource, AlleleIndex],
        held_out: AlleleIndex,
        rules: SamplingRules,
        held_sequences: HeldSequences | None = None,
    ) -> None:
        self.windows, self._real, self._rules, self.seen = windows, real, rules, Counter[str]()
        self._plain = EditSampler(real, held_out, rules, held_sequences)
        self._compiled = BatchSampler(real, held_out, rules, held_sequences)

    def compare(self, rows: Sequence[int], plans: Sequence[Sequence[EditSource]], *, seed: int, epoch: int) -> None:
        """Assert that both give the same tuples, arrays, redraws and errors for the windows of some rows."""
        at = np.array(rows, dtype=np.int64)
        earlier = np.array([rows[:visit].count(row) for visit, row in enumerate(rows)], dtype=np.int64)
        visits = Visits(at, plan_codes(plans), earlier)
        settings = StreamSettings(seed=seed, n_edits=visits.plan.shape[1], pooling=self._rules.pooling)
        stream = RandomStream(self.windows, self._compiled, settings)
        try:
            plain = [
                self._plain_tuples(*visit, seed=seed, epoch=epoch)
                for visit in zip(rows, plans, visits.again.tolist(), strict=True)
            ]
        except EditError as expected:
            self.seen["full"] += 1
            try:
                stream.batch(visits, epoch=epoch, position=3)
            except EditError as got:
                assert str(got) == str(expected)
                return
            raise AssertionError(f"an error is missing: {expected}") from None
        batch = stream.batch(visits, epoch=epoch, position=3)
        assert batch.tuples == tuple(one for tuples, _, _ in plain for one in tuples)
        assert_arrays(batch)
        redraws: Counter[str] = Counter()
        for window, (_, tokens, refused) in enumerate(plain):
            redraws.update(refused)
            own = batch.target_tokens[batch.edits.window == window]
            np.testing.assert_array_equal(own[:, : tokens.shape[1]], tokens)
            assert (own[:, tokens.shape[1] :] == -1).all()
        assert {name: n for name, n in batch.counts.items() if name.startswith("redrawn")} == {
            f"redrawn_{reason}": n for reason, n in redraws.items()
        }

    def _plain_tuples(self, row, plan, again, *, seed, epoch):
        record = self.windows.record(row)
        first = self.windows.first_rows
        earlier = int(np.count_nonzero(first[:row] == first[row]))
        key = DrawKey.of(seed, epoch, record.window_id, again + earlier * 2**32)
        haplotypes, redraws = self._plain.sample(record, plan, key)
        clinvar = self._real.get(EditSource.CLINVAR)
        made = build_tuples(record, haplotypes, self._rules.pooling, epoch=epoch, position=3, clinvar=clinvar)
        self.seen.update(redraws)
        self.seen.update(f"edits_{len(one.rel_edits)}" for one in made[0])
        return *made, redraws


def assert_arrays(batch: TrainingBatch) -> None:
    expected, found = plain_arrays(batch.tuples), edit_arrays(batch)
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
        assert found[name].dtype == values.dtype, name
    for name in ("block_start", "block_stop", "locus_token", "n_tokens"):
        assert getattr(batch, name).tolist() == [getattr(one, name) for one in batch.tuples], name


def build_tuples(
    window: WindowRecord,
    haplotypes: Sequence[SampledHaplotype | Haplotype],
    pooling: Pooling,
    *,
    epoch: int,
    position: int,
    clinvar: AlleleIndex | None = None,
) -> tuple[tuple[TrainingTuple, ...], Tokens]:
    """Make the tuples of a window, one per haplotype, and the 6-mers of every edited window."""
    source = encode_tokens(window.sequence)
    targets = np.repeat(source[None], len(haplotypes), axis=0)
    tuples = []
    for slot, haplotype in enumerate(haplotypes):
        edited, locus_token = haplotype.edited, haplotype.locus_bp // TOKEN_BP
        _encode_changes(targets[slot], haplotype)
        block_start, block_stop = pooling.blocks(locus_token, len(source))
        pooled = slice(block_start * pooling.block_tokens, min(len(source), block_stop * pooling.block_tokens))
        changed = np.flatnonzero(targets[slot, pooled] != source[pooled])
        if not changed.size:
            raise EditError(f"window {window.window_id}", "edit changes no pooled token", got=str(edited.edits))
        tuples.append(
            TrainingTuple(
                window_id=window.window_id,
                rel_edits=edited.edits,
                source_window=window.sequence,
                target_window=edited.sequence,
                edit_source=haplotype.source,
                planned_source=getattr(haplotype, "planned", haplotype.source),
                frame_shift=edited.frame_shift,
                length_change=edited.length_change,
                left_context_bp=haplotype.locus_bp,
                locus_token=locus_token,
                block_start=block_start,
                block_stop=block_stop,
                n_pooled=pooled.stop - pooled.start,
                n_changed=len(changed),
                n_changed_blocks=len(np.unique(changed // pooling.block_tokens)),
                pooled_edits=_pooled_share(window, edited.edits, range(block_start, block_stop), pooling),
                kind=pooling.kind,
                phase=_phase(haplotype),
                **_stated(clinvar, haplotype),
                origin=window.origin,
                contig=window.contig,
                window_start=window.start,
                strand=window.strand,
                alleles=haplotype.alleles,
                epoch=epoch,
                position=position,
                slot=slot,
            )
        )
    return tuple(tuples), targets


def _phase(haplotype: SampledHaplotype) -> Phase:
    if len(haplotype.edited.edits) == 1:
        return Phase.SINGLE
    return Phase.PHASED if haplotype.phased else Phase.UNPHASED


def _pooled_share(window: WindowRecord, edits: Sequence[RelEdit], blocks: range, pooling: Pooling) -> float:
    """Return the share of edits that lie in the pooled blocks, 1.0; raise EditError if it is less.

    The sampler rejects such haplotypes by arrays and token numbers; this compares texts and block numbers.
    """
    end = blocks.stop * pooling.block_tokens * TOKEN_BP if len(edits) > 1 else len(window.sequence)
    inside = [
        _first_difference(window, edit) // TOKEN_BP // pooling.block_tokens in blocks and edit.rel_end <= end
        for edit in edits
    ]
    if not all(inside):
        raise EditError(
            f"window {window.window_id}",
            "edit lies outside of the blocks that its tuple is pooled over",
            expected=f"edits in blocks {blocks.start} to {blocks.stop - 1}",
            got=", ".join(str(edit) for edit, is_in in zip(edits, inside, strict=True) if not is_in),
            remedy="Sample edits with the pooling of the tuples",
        )
    return sum(inside) / len(edits)


def _first_difference(window: WindowRecord, edit: RelEdit) -> int:
    """Return the first base, 0-based in the window, at which an edit alone makes a difference."""
    bases = window.sequence + window.right_flank
    pairs = zip(bases[edit.rel_pos :], edit.alt + bases[edit.rel_end :], strict=False)
    return edit.rel_pos + next((at for at, (before, after) in enumerate(pairs) if before != after), len(bases))


def _encode_changes(tokens: Tokens, haplotype: SampledHaplotype) -> None:
    """Update the unedited window's tokens in place to the edited window's; encode only tokens that can differ."""
    edited = haplotype.edited
    # A change of length moves either the bases left of the edits (the origin shifts) or those right of them.
    first = 0 if edited.origin_shift else haplotype.locus_bp // TOKEN_BP
    moves_right = edited.length_change and not edited.origin_shift
    last = len(tokens) if moves_right else -(-edited.edits[-1].rel_end // TOKEN_BP)
    tokens[first:last] = encode_tokens(edited.sequence[first * TOKEN_BP : last * TOKEN_BP])


def _stated(clinvar: AlleleIndex | None, haplotype: SampledHaplotype) -> dict[str, Any]:
    row, nothing = haplotype.allele_row, {"label": None, "stars": None, "clinvar_id": None, "gene_ids": ()}
    if row < 0 or haplotype.source != EditSource.CLINVAR or clinvar is None or clinvar.classification is None:
        return nothing
    facts = clinvar.classification
    label, stars, name = int(facts.label[row]), int(facts.stars[row]), int(facts.clinvar_id[row])
    return {
        "label": CLASSES[label] if label >= 0 else None,
        "stars": stars if stars >= 0 else None,
        "clinvar_id": name if name >= 0 else None,
        "gene_ids": tuple(facts.gene_ids[facts.gene_at[row] : facts.gene_at[row + 1]].tolist()),
    }


def plain_arrays(tuples: Sequence[TrainingTuple]) -> dict[str, NDArray[np.generic]]:
    n, places = len(tuples), max([EDIT_PLACES, *(len(one.rel_edits) for one in tuples)])
    arrays = _empty_arrays(n, places)
    for row, one in enumerate(tuples):
        for place, edit in enumerate(one.rel_edits):
            at = row, place
            arrays["edit_mask"][at] = True
            arrays["edit_type"][at] = EDIT_TYPE_CODES[edit.kind]
            arrays["edit_rel_pos"][at] = edit.rel_pos
            if one.alleles:
                arrays["edit_pos"][at] = one.alleles[place].pos
            for name, allele in (("edit_ref", edit.ref), ("edit_alt", edit.alt)):
                arrays[name][at][: len(allele)] = encode_sequence(allele[:ALLELE_BP])
                arrays[f"{name}_length"][at] = len(allele)
            arrays["edit_truncated"][at] = max(len(edit.ref), len(edit.alt)) > ALLELE_BP
    for name, dtype, value_of in _PER_TUPLE:
        arrays[name] = np.array([value_of(one) for one in tuples], dtype=dtype)
    return arrays


_PER_TUPLE: tuple[tuple[str, type[np.generic], Callable[[TrainingTuple], int]], ...] = (
    ("n_edits", np.int64, lambda one: len(one.rel_edits)),
    ("label", np.int8, lambda one: MISSING if one.label is None else LABEL_CODES[one.label]),
    ("edit_source", np.int8, lambda one: EDIT_SOURCE_CODES[one.edit_source]),
    ("planned_source", np.int8, lambda one: EDIT_SOURCE_CODES[one.planned_source]),
    ("frame_shift", np.int8, lambda one: one.frame_shift),
    ("length_change", np.int64, lambda one: one.length_change),
    ("contig", np.int8, lambda one: CONTIG_CODES.get(one.contig or "", MISSING)),
)


def _empty_arrays(n: int, places: int) -> dict[str, NDArray[np.generic]]:
    flags = ("edit_mask", "edit_truncated")
    empty: dict[str, NDArray[np.generic]] = {name: np.zeros((n, places), dtype=np.bool_) for name in flags}
    empty["edit_type"] = np.full((n, places), MISSING, dtype=np.int8)
    for name in ("edit_rel_pos", "edit_pos"):
        empty[name] = np.full((n, places), MISSING, dtype=np.int64)
    for name in ("edit_ref", "edit_alt"):
        empty[f"{name}_length"] = np.zeros((n, places), dtype=np.int64)
        empty[name] = np.full((n, places, ALLELE_BP), MISSING, dtype=np.int8)
    return empty
