"""The plain sampler and the tuples made from its edits, compared with those of the compiled sampler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from genolewm_assets.errors import EditError
from genolewm_assets.genome import EditSpec, RelEdit, decode_sequence
from genolewm_assets.lewm.edits import (
    AlleleIndex,
    DrawKey,
    EditSampler,
    EditSource,
    HeldSequences,
    Redraw,
    SamplingRules,
    SplitWindows,
)
from genolewm_assets.lewm.sampler.batch_sampler import BatchSampler, plan_codes
from genolewm_assets.lewm.sampler.tables import AlleleArrays, EditBatch, WindowArrays
from genolewm_assets.lewm.training.edit_arrays import edit_arrays
from genolewm_assets.lewm.training.schedule import count_visits
from genolewm_assets.lewm.training.tuples import TrainingTuple, build_tuples

#: Arrays of ``edit_arrays`` that a batch holds under the same name.
_SAME_NAME = (
    "edit_type", "edit_rel_pos", "edit_pos", "edit_ref_length", "edit_alt_length", "edit_ref", "edit_alt", "n_edits",
    "edit_source", "planned_source", "frame_shift", "length_change",
)  # fmt: skip
#: Attributes of a tuple that a batch holds, by the name there.
_NUMBERS = {
    "locus_bp": "left_context_bp",
    "block_start": "block_start",
    "block_stop": "block_stop",
    "n_pooled": "n_pooled",
    "n_changed": "n_changed",
    "n_changed_blocks": "n_changed_blocks",
}


class Samplers:
    """The plain sampler and the compiled one, over the same windows and alleles.

    Attributes
    ----------
    seen
        Redraws by reason, tuples by number of edits (``edits_2``), and windows without a further edit (``full``).
    """

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
        self._compiled = BatchSampler(
            {source: AlleleArrays.of(index, windows.contigs) for source, index in real.items()},
            AlleleArrays.of(held_out, windows.contigs),
            rules,
            held_sequences,
        )

    def compare(self, rows: Sequence[int], plans: Sequence[Sequence[EditSource]], *, seed: int, epoch: int) -> None:
        """Assert that both samplers give the same tuples, redraws and errors for the windows of some rows."""
        at = np.array(rows, dtype=np.int64)
        again = count_visits(self.windows.window_ids[at])
        arrays = WindowArrays.unpack(self.windows.packed(at))
        options = {"seed": seed, "epoch": epoch}
        try:
            plain = [self._plain_tuples(*visit, **options) for visit in zip(rows, plans, again.tolist(), strict=True)]
        except EditError as expected:
            self.seen["full"] += 1
            try:
                self._compiled.sample(arrays, plan_codes(plans), again=again, **options)
            except EditError as got:
                assert str(got) == str(expected)
                return
            raise AssertionError(f"an error is missing: {expected}") from None
        batch = self._compiled.sample(arrays, plan_codes(plans), again=again, **options)
        self._compare_tuples([one for tuples, _, _ in plain for one in tuples], arrays, batch)
        for window, (_, tokens, redraws) in enumerate(plain):
            own = batch.target_tokens[window * batch.n_slots : (window + 1) * batch.n_slots]
            np.testing.assert_array_equal(own[:, : tokens.shape[1]], tokens)
            assert (own[:, tokens.shape[1] :] == -1).all()
            assert {
                reason.value: n for reason, n in zip(Redraw, batch.redraws[window].tolist(), strict=True) if n
            } == redraws

    def _plain_tuples(self, row, plan, again, *, seed, epoch):
        record = self.windows.record(row)
        key = DrawKey.of("edits", seed, epoch, record.window_id, again)
        haplotypes, redraws = self._plain.sample(record, plan, key)
        tuples, tokens = build_tuples(record, haplotypes, self._rules.pooling, epoch=epoch, position=0)
        self.seen.update(redraws)
        self.seen.update(f"edits_{len(one.rel_edits)}" for one in tuples)
        return tuples, tokens, redraws

    def _compare_tuples(self, tuples: Sequence[TrainingTuple], arrays: WindowArrays, batch: EditBatch) -> None:
        assert len(batch) == len(tuples)
        expected = edit_arrays(tuples)
        for name in _SAME_NAME:
            np.testing.assert_array_equal(getattr(batch, name), expected[name], err_msg=name)
        for name, attribute in _NUMBERS.items():
            assert getattr(batch, name).tolist() == [getattr(one, attribute) for one in tuples], name
        texts = batch.edited_windows(arrays)
        for at, one in enumerate(tuples):
            assert texts[at].tobytes().decode().rstrip("\0") == one.target_window
            assert _rel_edits(batch, at, one.source_window) == one.rel_edits
            assert _alleles(batch, at, one) == one.alleles
            self._compare_label(batch, at, one)

    def _compare_label(self, batch: EditBatch, at: int, one: TrainingTuple) -> None:
        row, source = int(batch.allele_row[at]), list(EditSource)[batch.edit_source[at]]
        assert (row >= 0) == (source in self._real and len(one.rel_edits) == 1)
        stated = self._real[source].classification(row) if row >= 0 else None
        assert (stated.label if stated else None) == one.label
        if row >= 0:
            (allele,) = one.alleles
            assert self._real[source].allele(row) == (allele.pos, allele.ref, allele.alt)


def _alt(batch: EditBatch, at: int, place: int, first: int) -> str:
    return decode_sequence(batch.pool[first : first + int(batch.edit_alt_length[at, place])])


def _rel_edits(batch: EditBatch, at: int, window: str) -> tuple[RelEdit, ...]:
    """Return the edits of a tuple with whole alleles."""
    edits = []
    for place in range(batch.n_edits[at]):
        pos, size = int(batch.edit_rel_pos[at, place]), int(batch.edit_ref_length[at, place])
        edits.append(RelEdit(pos, window[pos : pos + size], _alt(batch, at, place, int(batch.alt_at[at, place]))))
    return tuple(edits)


def _alleles(batch: EditBatch, at: int, one: TrainingTuple) -> tuple[EditSpec, ...]:
    """Return the reference alleles of a tuple with whole alts; refs are those of the other side."""
    return tuple(
        EditSpec(
            allele.chrom,
            int(batch.edit_pos[at, place]),
            allele.ref,
            _alt(batch, at, place, int(batch.allele_alt_at[at, place])),
        )
        for place, allele in enumerate(one.alleles)
    )
