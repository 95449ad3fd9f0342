"""Visits of an epoch, and edits of a batch of windows, by compiled loops. Not here: the rules in words (``edits``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import (
    EDIT_SOURCE_CODES,
    AlleleIndex,
    Classification,
    EditSource,
    HeldKmers,
    HeldSequences,
    Redraw,
    SamplingRules,
    epoch_key,
)
from genolewm_assets.errors import ConfigurationError, EditError
from genolewm_assets.genome import TOKEN_BP, LengthPolicy
from genolewm_assets.states import TupleKind
from genolewm_assets.training.sampler.tables import EditBatch, WindowArrays, no_tokens, read_only

if TYPE_CHECKING:
    from genolewm_assets.training.sampler import sampling_kernels
    from genolewm_assets.training.sampler.edit_kernels import Room
    from genolewm_assets.training.sampler.held_kernels import Held
    from genolewm_assets.training.sampler.proposal_kernels import Dice
    from genolewm_assets.training.sampler.rule_kernels import Limits

#: Tables of real alleles that the kernels take.
_MOST_TABLES = 2
#: Rows of a room behind those of the slots.
_SPARE_ROWS = 5
#: Seeds of one haplotype that are noted: those of three edits with alts of 100 bases.
_MOST_NOTES = 32
#: No window has as many tokens.
_MOST_TOKENS = 2**40
#: Least bytes of an alt: the longest synthetic one, an anchor base and 15 others.
_SYNTHETIC_BP = 16


class BatchSampler:
    """Samples the edits of windows; keeps no state between batches.

    ``real``: alleles to draw from, by source; more than two sources are a ConfigurationError. No edit makes an allele
    of ``held_out``, which ``held_sequences`` tells in windows without an exact placement; None: nothing does.
    """

    def __init__(
        self,
        real: Mapping[EditSource, AlleleIndex],
        held_out: AlleleIndex,
        rules: SamplingRules | None = None,
        held_sequences: HeldSequences | None = None,
    ) -> None:
        if len(real) > _MOST_TABLES:
            raise ConfigurationError(
                "sources of real alleles", "too many", expected=f"at most {_MOST_TABLES}", got=f"{len(real)}"
            )
        self._real, self._held_out, self._held_sequences = dict(real), held_out, held_sequences
        self._rules = rules or SamplingRules()

    def sample(
        self, windows: WindowArrays, plan: NDArray[np.int8], *, seed: int, epoch: int, again: NDArray[np.int64]
    ) -> EditBatch:
        """Sample one haplotype for every slot of every window; raise EditError if no allowed edit is found for one.

        ``plan``: int8, shape (n_windows, n_slots): index in ``EditSource`` of the source of every slot. ``again``:
        int64, shape (n_windows,): numbers that differ between visits of windows with the same id in the epoch: how
        often the row is visited in earlier rounds of its stratum, and in the upper 32 bits how many rows before it have
        the same id.

        Every random number is of the key ``DrawKey.of(seed, epoch, window_id, again)`` and of the stream of its slot or
        source.
        """
        from genolewm_assets.training.sampler.entry_kernels import entries

        n_windows, n_slots = plan.shape
        limits, sources = self._limits(), self._sources(windows.contigs)
        batch = _windows(windows, again)
        room = self._room(n_slots, windows)
        most = max(entries().count_alleles(batch, limits, table) for table in (sources.first, sources.second))
        drawn = _room_for(windows, n_windows * n_slots, room)
        of_epoch = read_only(np.array(epoch_key(seed, epoch), dtype=np.int64))
        held, dice = self._held(windows.contigs), _dice(most)
        failed, slot, used = entries().sample_windows(
            batch, read_only(plan), of_epoch, limits, sources, held, room, dice, drawn
        )
        if failed >= 0:
            raise EditError(
                f"window {windows.window_ids[failed].decode()}",
                "no further edit is allowed",
                expected=f"{n_slots} distinct edits outside the edge margins",
                got=f"{slot}",
                remedy="Reduce n_edits or min_left_context_bp",
            )
        return _edit_batch(np.repeat(np.arange(n_windows), n_slots), drawn, used)

    def show(
        self, windows: WindowArrays, begins: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[EditBatch, NDArray[np.int8]]:
        """Make ClinVar alleles the only edits of windows with a place: a tuple each, of those that can be shown.

        Parameters
        ----------
        windows
            The n windows.
        begins
            int64, shape (n + 1,): where the alleles of each window begin in ``rows``, and the end.
        rows
            int64, shape (m,): rows of the ClinVar alleles.

        Returns
        -------
        EditBatch, int8 array of shape (m,)
            The tuples; for each allele -1, or the index in ``Redraw`` of why its window cannot show it. If bases of the
            left flank replace deleted ones, the token of the locus may be equal in both windows; tokens on its left
            then differ.

        Raises
        ------
        EditError
            If an edit changes no token that its states are pooled over.
        """
        from genolewm_assets.training.sampler import sampling_kernels as kernels
        from genolewm_assets.training.sampler.entry_kernels import entries

        alleles, room = _alleles(self._real[EditSource.CLINVAR], windows.contigs), self._room(1, windows)
        drawn, refused = _room_for(windows, len(rows), room), np.empty(len(rows), dtype=np.int8)
        drawn.facts[[kernels.PLANNED, kernels.SERVED]] = EDIT_SOURCE_CODES[EditSource.CLINVAR]
        limits = self._limits()._replace(shown_at_locus=False)
        batch, chosen = _windows(windows, np.zeros(len(windows), dtype=np.int64)), map(read_only, (begins, rows))
        used = entries().show_alleles(
            batch, *chosen, limits, alleles, self._held(windows.contigs), room, drawn, refused
        )
        edits = _edit_batch(np.repeat(np.arange(len(windows)), np.diff(begins)), drawn, used)
        shown = edits.take(np.flatnonzero(refused < 0))
        if not shown.n_changed.all():
            at = shown.window[shown.n_changed == 0][0]
            raise EditError(f"window {windows.window_ids[at].decode()}", "an edit changes no pooled token")
        return shown, refused

    def stated(self, edits: EditBatch) -> Classification:
        """Return what ClinVar states of edits that were drawn, as far as they are single ClinVar alleles."""
        clinvar = self._real.get(EditSource.CLINVAR)
        if clinvar is None or clinvar.classification is None:
            return Classification.unknown(len(edits))
        is_clinvar = edits.edit_source == EDIT_SOURCE_CODES[EditSource.CLINVAR]
        return clinvar.classification.take(np.where(is_clinvar, edits.allele_row, -1))

    def _limits(self) -> Limits:
        from genolewm_assets.training.sampler.rule_kernels import Limits

        rules, pooling = self._rules, self._rules.pooling
        return Limits(
            first_bp=rules.first_bp,
            inset_bp=rules.inset_bp,
            policy=get_args(LengthPolicy).index(rules.policy),
            multi_edit_share=float(rules.multi_edit_share),
            is_global=pooling.kind is TupleKind.GLOBAL,
            is_right=pooling.side == "right",
            # In kernels a sum with a token must not pass 2**63.
            radius_tokens=min(pooling.radius_tokens, _MOST_TOKENS),
            block_tokens=pooling.block_tokens,
            shown_at_locus=True,
        )

    def _sources(self, contigs: Sequence[str]) -> sampling_kernels.Sources:
        from genolewm_assets.training.sampler.sampling_kernels import Sources

        table_of = np.full(len(EditSource), -1, dtype=np.int64)
        table_of[[EDIT_SOURCE_CODES[source] for source in self._real]] = np.arange(len(self._real))
        tables = [*self._real.values(), self._held_out, self._held_out][:_MOST_TABLES]
        first, second = (_alleles(table, contigs) for table in tables)
        return Sources(first, second, read_only(table_of))

    def _held(self, contigs: Sequence[str]) -> Held:
        from genolewm_assets.training.sampler.held_kernels import Held

        table = HeldKmers.none() if self._held_sequences is None else self._held_sequences.table
        kmers = HeldKmers(read_only(table.keys), read_only(table.seeds), table.shift)
        return Held(_alleles(self._held_out, contigs), kmers)

    def _room(self, n_slots: int, windows: WindowArrays) -> Room:
        """Return memory for the edits of any of some windows."""
        from genolewm_assets.training.sampler.edit_kernels import Room

        longest = int(windows.sizes[:, 1].max(initial=0))
        rows = 3 * n_slots + _SPARE_ROWS
        # An alt that is longer than the window is refused before it is written.
        longest_alt = min(longest, max([0, *(table.longest_bp for table in self._real.values())]))
        allele_bp = max(_SYNTHETIC_BP, longest_alt)
        joined_bp = longest + 3 * allele_bp
        return Room(
            edits=np.empty((rows, 4), dtype=np.int64),
            alt=np.empty((rows - 2) * allele_bp + 2 * joined_bp, dtype=np.uint8),
            codes=np.empty(longest + TOKEN_BP, dtype=np.uint8),
            rows=np.empty((n_slots, 3), dtype=np.int64),
            counts=np.empty(n_slots, dtype=np.int64),
            facts=np.empty((n_slots, 3), dtype=np.int64),
            notes=np.empty((_MOST_NOTES, 2), dtype=np.uint64),
            allele_bp=allele_bp,
            joined_bp=joined_bp,
        )


def _alleles(index: AlleleIndex, contigs: Sequence[str]) -> Any:
    from genolewm_assets.training.sampler.held_kernels import Alleles

    return Alleles(*map(read_only, (index.pos, index.at, index.text, index.contig_rows(contigs))))


def _id_words(ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return the 32 hex digits of each id as four words: int64, shape (n, 4)."""
    digits = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), 4, 8).astype(np.int64)
    words: NDArray[np.int64] = ((digits & 15) + 9 * (digits >> 6)) @ (1 << np.arange(28, -1, -4, dtype=np.int64))
    return words


def _dice(most_alleles: int) -> Dice:
    from genolewm_assets.training.sampler.draw_kernels import STREAM_WORDS
    from genolewm_assets.training.sampler.proposal_kernels import Dice

    return Dice(
        streams=np.empty((1 + _MOST_TABLES, STREAM_WORDS), dtype=np.int64),
        key=np.empty(4, dtype=np.int64),
        order=np.empty((1 + _MOST_TABLES, max(1, most_alleles)), dtype=np.int64),
        left=np.empty(_MOST_TABLES, dtype=np.int64),
        first=np.empty(_MOST_TABLES, dtype=np.int64),
    )


def _windows(windows: WindowArrays, again: NDArray[np.int64]) -> sampling_kernels.Windows:
    from genolewm_assets.training.sampler.sampling_kernels import Windows

    bases = windows.codes, windows.at, windows.sizes, _id_words(windows.window_ids)
    place = windows.contig, windows.start, windows.is_reverse, windows.spells_held
    return Windows(*map(read_only, (*bases, *place, again)))


def _room_for(windows: WindowArrays, n: int, room: Room) -> sampling_kernels.Drawn:
    """Return memory for n tuples of some windows."""
    from genolewm_assets.training.sampler import sampling_kernels as kernels

    width = int(windows.sizes[:, 1].max(initial=0)) // TOKEN_BP
    places = np.full((kernels.N_PLACES, n, 3), -1, dtype=np.int64)
    places[[kernels.REF_LENGTH, kernels.ALT_LENGTH]] = 0
    return kernels.Drawn(
        facts=np.empty((kernels.N_FACTS, n), dtype=np.int64),
        places=places,
        bases=np.full((2, n, 3, 16), -1, dtype=np.int8),
        # Pages that no alt is written to take no memory.
        pool=np.empty(6 * n * room.allele_bp, dtype=np.uint8),
        redraws=np.zeros((len(windows), len(Redraw)), dtype=np.int64),
        source_tokens=no_tokens(len(windows), width),
        tokens=np.empty((n, width), dtype=np.int16),
    )


def _edit_batch(window: NDArray[np.int64], drawn: sampling_kernels.Drawn, used: int) -> EditBatch:
    """Return drawn edits as named columns."""
    from genolewm_assets.training.sampler import sampling_kernels as kernels

    facts, places = drawn.facts, drawn.places
    return EditBatch(
        window=window,
        n_edits=facts[kernels.N_EDITS],
        planned_source=facts[kernels.PLANNED].astype(np.int8),
        edit_source=facts[kernels.SERVED].astype(np.int8),
        allele_row=facts[kernels.ALLELE],
        locus_bp=facts[kernels.LOCUS_BP],
        phased=np.zeros(len(window), dtype=np.bool_),
        length_change=facts[kernels.LENGTH_CHANGE],
        origin_shift=facts[kernels.ORIGIN_SHIFT],
        block_start=facts[kernels.BLOCK_START],
        block_stop=facts[kernels.BLOCK_STOP],
        n_pooled=facts[kernels.N_POOLED],
        n_changed=facts[kernels.N_CHANGED],
        n_changed_blocks=facts[kernels.N_CHANGED_BLOCKS],
        edit_type=places[kernels.TYPE].astype(np.int8),
        edit_rel_pos=places[kernels.REL_POS],
        edit_pos=places[kernels.REFERENCE_POS],
        edit_ref_length=places[kernels.REF_LENGTH],
        edit_alt_length=places[kernels.ALT_LENGTH],
        edit_ref=drawn.bases[0],
        edit_alt=drawn.bases[1],
        alt_at=places[kernels.ALT_AT],
        allele_alt_at=places[kernels.ALLELE_ALT_AT],
        pool=drawn.pool[:used].copy(),
        redraws=drawn.redraws,
        source_tokens=drawn.source_tokens,
        target_tokens=drawn.tokens,
    )


def find_visits(
    seed: tuple[int, int],
    epoch: int,
    strata: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]],
    visits: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows of visits of an epoch in random order, and how often each is visited in earlier rounds: int64, (n,).

    ``seed``: low and high word; ``epoch`` is below 2**32. ``strata``: where the visits of each stratum end in the epoch
    and how many it has in earlier ones, shape (n_strata,); where its rows begin and the end, shape (n_strata + 1,);
    rows by stratum, shape (n_windows,). ``visits``: numbers of the n visits in the epoch.
    """
    from genolewm_assets.training.sampler.entry_kernels import entries

    rows, again = np.empty_like(visits), np.empty_like(visits)
    words, numbers = np.array(seed, dtype=np.int64), map(read_only, strata)
    entries().write_visits(read_only(words), epoch, *numbers, read_only(visits), rows, again)
    return rows, again
