"""Tensors of edits are compared with the tuples, one by one, and with bases read from the windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genolewm_assets import lewm
from genolewm_assets.edits.allele_index import LABEL_CODES, AlleleIndex
from genolewm_assets.edits.rules import EDIT_SOURCE_CODES, EditSource
from genolewm_assets.genome import EditType
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.stream import RandomStream, StreamSettings, Visits
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package
from genolewm_assets_tests.worlds.lewm.stream_world import (
    as_batch,
    make_window,
    no_alleles,
    simulate_alleles,
    simulate_reference,
)

torch = Late("torch")
tensors_of = Late("genolewm_assets.training.tensors")
arrays_of = Late("genolewm_assets.training.batches")

#: What the documents publish; models that were trained on these codes depend on them.
TYPES = {"snv": 0, "ins": 1, "del": 2, "mnv": 3, "delins": 4}
SOURCES = {"gnomad": 0, "synthetic_snv": 1, "synthetic_indel": 2, "clinvar": 3}
LABELS = {None: -1, "P": 0, "LP": 1, "VUS": 2, "LB": 3, "B": 4, "OTHER": 5}
CONTIGS = {None: -1, "chr1": 0, "chr17": 16, "chr20": 19, "chr21": 20, "chr22": 21, "chrX": 22, "chrY": 23, "chrM": 24}
DTYPES = {
    "int8": ("edit_type", "edit_ref", "edit_alt", "label", "edit_source", "planned_source", "frame_shift", "contig"),
    "int64": ("edit_rel_pos", "edit_pos", "edit_ref_length", "edit_alt_length", "n_edits", "length_change"),
    "bool": ("edit_mask", "edit_truncated"),
}


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory):
    """Return batches of training, validation and test, many of their tuples with several edits."""
    package: Path = publish_package(tmp_path_factory.mktemp("tensors"))
    kinds = (lewm.GenoLeWMDataset, lewm.GenoLeWMValDataset, lewm.GenoLeWMTestDataset)
    held = [(), ("holdout-chr",), ("holdout-chr",)]
    options = {"multi_edit_share": 0.4, "min_left_context_bp": 100, "mix": "rotating"}
    read = [batch for kind, name in zip(kinds, held, strict=True) for batch in kind(package, *name, **options)]
    return [*read, reverse_batch()]


def reverse_batch():
    """Return a batch of a window on the reverse strand."""
    reference = simulate_reference()
    real = {EditSource.GNOMAD: AlleleIndex.of(simulate_alleles(reference, 300))}
    sampler = BatchSampler(real, AlleleIndex.of(no_alleles()))
    windows = SplitWindows([as_batch([make_window(reference, 4_000, strand="-")])])
    plan = np.full(8, EDIT_SOURCE_CODES[EditSource.GNOMAD], dtype=np.int8)
    visits = Visits.of([0] * 8, plan, range(8))
    return RandomStream(windows, sampler, StreamSettings()).batch(visits, epoch=0, position=0)


def spelled(codes, size: int) -> str:
    assert (codes[size:] == -1).all()
    return "".join("ACGTN"[code] for code in codes[:size].tolist())


def test_every_edit_of_every_tuple_is_in_the_tensors(batches):
    seen = {"several": 0, "unplaced": 0, "reverse": 0, "labelled": 0}
    for batch in batches:
        tensors = tensors_of.as_tensors(batch)
        for row, one in enumerate(batch.tuples):
            assert tensors["n_edits"][row] == len(one.rel_edits)
            assert tensors["edit_mask"][row].tolist() == [place < len(one.rel_edits) for place in range(3)]
            for place, edit in enumerate(one.rel_edits):
                at = (row, place)
                assert tensors["edit_type"][at] == TYPES[edit.kind.value]
                assert tensors["edit_rel_pos"][at] == edit.rel_pos
                assert spelled(tensors["edit_ref"][at], tensors["edit_ref_length"][at]) == edit.ref
                assert spelled(tensors["edit_alt"][at], tensors["edit_alt_length"][at]) == edit.alt
                start = int(tensors["edit_rel_pos"][at])
                assert one.source_window[start:].startswith(edit.ref)
                pos = int(tensors["edit_pos"][at])
                assert pos == (one.alleles[place].pos if one.contig else -1)
                if one.contig and edit.kind is EditType.SNV:
                    in_reference = start if one.strand == "+" else len(one.source_window) - 1 - start
                    assert pos == one.window_start + in_reference + 1
            for name, missing in (("edit_type", -1), ("edit_rel_pos", -1), ("edit_pos", -1), ("edit_ref_length", 0)):
                assert (tensors[name][row, len(one.rel_edits) :] == missing).all()
            assert (tensors["edit_alt"][row, len(one.rel_edits) :] == -1).all()
            assert tensors["label"][row] == LABELS[one.label]
            assert tensors["edit_source"][row] == SOURCES[one.edit_source]
            assert tensors["planned_source"][row] == SOURCES[one.planned_source]
            assert tensors["frame_shift"][row] == one.length_change % 6
            assert tensors["length_change"][row] == sum(len(e.alt) - len(e.ref) for e in one.rel_edits)
            assert tensors["contig"][row] == CONTIGS[one.contig]
            seen["several"] += len(one.rel_edits) > 1
            seen["unplaced"] += one.contig is None
            seen["reverse"] += one.strand == "-"
            seen["labelled"] += one.label is not None
    assert min(seen.values()) > 0, seen


def test_shapes_and_dtypes_are_as_documented(batches):
    tensors = tensors_of.as_tensors(batches[0])
    for dtype, names in DTYPES.items():
        for name in names:
            assert tensors[name].dtype == getattr(torch, dtype), name
    n = len(batches[0])
    assert tensors["edit_ref"].shape == tensors["edit_alt"].shape == (n, 3, 16)
    assert tensors["edit_mask"].shape == tensors["edit_pos"].shape == (n, 3)
    assert tensors["contig"].shape == tensors["label"].shape == (n,)


def test_published_codes_do_not_change():
    assert {kind.value: code for kind, code in arrays_of.EDIT_TYPE_CODES.items()} == TYPES
    assert SOURCES.items() <= {source.value: code for source, code in EDIT_SOURCE_CODES.items()}.items()
    assert set(EDIT_SOURCE_CODES) == set(EditSource)
    assert {**LABEL_CODES, None: -1} == LABELS
    assert {name: arrays_of.CONTIG_CODES[name] for name in CONTIGS if name}.items() <= CONTIGS.items()
    assert len(arrays_of.CONTIG_CODES) == 25
