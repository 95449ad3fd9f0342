"""Tasks on mitochondrial genomes: alignment to the reference circle, tokenisation, items of data sets.

``python -m benchmarks.mito.jobs PART GENOMES``; the parts are ``genomes``, ``tokens`` and ``items``.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stopwatch import serve_tasks
from genolewm_assets.genome import Variant
from genolewm_assets.mito import KmerVocabulary, MtDNADataset, MtDNAVariantDataset, tokenize_batch, tokenize_sequence
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.tokens.rows import N_TOKENS, K, stored_row, token_arrays
from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint

LENGTH, SUBSTITUTIONS = 16_569, 30
ITEMS = 20_000
_ITEM_GENOMES, _ALIGNED_GENOMES, _SEED = 200, 50, 7


def make_genomes(count: int) -> list[str]:
    """Return ``count`` circular sequences of 16,569 bases that differ from a random one by up to 30 substitutions."""
    rng = np.random.default_rng(_SEED)
    first = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, LENGTH)]
    genomes = []
    for _ in range(count):
        genome = first.copy()
        genome[rng.integers(0, LENGTH, SUBSTITUTIONS)] = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, 30)]
        genomes.append(genome.tobytes().decode())
    return genomes


def _genome_tasks(count: int) -> dict[str, Callable[[], int]]:
    first, *genomes = make_genomes(1 + min(count, _ALIGNED_GENOMES))
    aligner = CircularAligner(first)

    def align() -> int:
        for genome in genomes:
            aligner.align(genome, where="genome")
        return len(genomes)

    return {"align": align}


def _token_tasks(count: int) -> dict[str, Callable[[], int]]:
    genomes, vocabulary = make_genomes(count), KmerVocabulary.build(6)
    return {"batch": lambda: int(tokenize_batch(genomes, vocabulary)["input_ids"].size)}


def _item_tasks(count: int) -> dict[str, Callable[[], int]]:
    import torch

    genomes, vocabulary = make_genomes(min(count, _ITEM_GENOMES)), KmerVocabulary.build(6)
    rng = np.random.default_rng(_SEED)
    levels = [rng.random(LENGTH, dtype=np.float32) for _ in genomes]
    places = [np.arange(LENGTH)] * len(genomes)
    memory = MtDNADataset(genomes, vocabulary)
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    stored = MtDNADataset.from_store(_write_store(folder, genomes, vocabulary), vocabulary)
    variants = MtDNAVariantDataset(genomes[0], _variants(genomes[0], rng), vocabulary)
    arrays = [value for value in memory[1].values() if isinstance(value, np.ndarray)]

    def read(dataset: Any) -> Callable[[], int]:
        order = rng.integers(0, len(dataset), ITEMS).tolist()

        def run() -> int:
            for index in order:
                dataset[index]
            return ITEMS

        return run

    def copies() -> int:
        for _ in range(ITEMS):
            [array.copy() for array in arrays]
        return ITEMS

    def tensors() -> int:
        for _ in range(ITEMS):
            [torch.from_numpy(array) for array in arrays]
        return ITEMS

    return {
        "window": read(memory),
        "window_het": read(MtDNADataset(genomes, vocabulary, het_levels=levels, coordinates=places)),
        "window_store": read(stored),
        "variant": read(variants),
        "copies": copies,
        "tensors": tensors,
    }


def _write_store(folder: Path, genomes: list[str], vocabulary: KmerVocabulary) -> ArrayStoreReader:
    arrays, config = token_arrays(vocabulary, LENGTH), {K: vocabulary.k}
    with ArrayStoreWriter(folder, arrays, key_config=config, columns={N_TOKENS: "int32"}) as writer:
        for number, genome in enumerate(genomes):
            row, meta = stored_row(tokenize_sequence(genome, vocabulary), arrays)
            writer.write(row, key=f"{number}", meta=meta)
        writer.finalize(compute_fingerprint(config, {}))
    return ArrayStoreReader(folder)


def _variants(genome: str, rng: np.random.Generator) -> list[Variant]:
    places = rng.integers(0, LENGTH, 5_000).tolist()
    return [Variant("chrM", at + 1, genome[at], "CGTA"["ACGT".index(genome[at])]) for at in places]


_PARTS: Mapping[str, Callable[[int], dict[str, Callable[[], int]]]] = {
    "genomes": _genome_tasks,
    "tokens": _token_tasks,
    "items": _item_tasks,
}


def main() -> None:
    part, genomes = sys.argv[1:]
    serve_tasks(_PARTS[part](int(genomes)), version=metadata.version("genolewm-assets"))


if __name__ == "__main__":
    main()
