"""``tuples/frozen``: epochs of training as they are drawn, with the states of both windows, from an H100."""

from pathlib import Path

import dagster as dg
import numpy as np

from genolewm_assets.defs.assets.packages.split import packages_split
from genolewm_assets.defs.display import describe_published, in_words, made_here, of, plotted
from genolewm_assets.defs.runtime import (
    BY_FROZEN_RELEASE,
    RECOMPUTED,
    GatedAsset,
    Plan,
    Workspace,
    configured_batch,
    configured_device,
    on_key_of,
)
from genolewm_assets.encoders import spread
from genolewm_assets.errors import ConfigurationError, counted
from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.packages import open_package, read_latest, read_package_info
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import BuildReport, Published
from genolewm_assets.training import FROZEN_CHECKS, stated_options, write_frozen
from genolewm_assets.training.precomputed_epochs import (
    FROZEN,
    FROZEN_ROWS,
    FrozenEpochs,
    RowSizes,
    frozen_config,
    frozen_location,
)

#: Rows of which the figures of the UI are made.
_SAMPLED_ROWS = 64


def plan_frozen(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the frozen epochs of a release's latest package."""
    epochs = workspace.catalog.packages.frozen_epochs
    if not epochs:
        raise ConfigurationError(
            f"{workspace.catalog.file} (packages.frozen_epochs)",
            "no epoch is to be frozen",
            expected="at least 1",
            got="0",
            remedy="State the number of epochs, and load the definitions again",
        )
    split, identity = packages_split.open(workspace, key), workspace.encoder_identity
    info = read_package_info(split.directory)
    recipe = frozen_config(info, stated_options({}), identity.as_recipe(), epochs=epochs)

    def write(work: Path) -> BuildReport:
        return write_frozen(
            work,
            open_package(split.directory, cache_root=workspace.root.path, allow_unaudited=True),
            workspace.load_encoder(configured_device(), **configured_batch()),
            epochs=epochs,
            sources={str(split.artefact): split.manifest.sha256},
            progress=progress,
        )

    n_tuples = epochs * info.epoch.tuples if info.epoch else 0
    tuple_bytes = RowSizes(1, workspace.catalog.window_profile.window_bp // TOKEN_BP, identity.hidden_size).row_bytes
    return Plan(
        recipe=recipe,
        inputs=(split,),
        write=write,
        note=f"{counted(n_tuples, 'edited window')} to encode, at most {n_tuples * tuple_bytes / 1e6:,.1f} MB",
    )


def describe_frozen(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of frozen epochs: rows, tuples, size, what edits change of states, facts of the run."""
    frozen, counts = FrozenEpochs(published.directory), published.manifest.counts
    shifts = np.concatenate(
        [
            np.linalg.norm(
                frozen.rows("target_states", row, row + 1) - frozen.rows("source_states", row, row + 1), axis=-1
            )
            for row in spread(counts["visits"], _SAMPLED_ROWS)
        ]
    )
    low, middle, high = np.quantile(shifts, [0.01, 0.5, 0.99]).tolist()
    facts = published.run_facts
    return {
        **describe_published(published, rows=counts["visits"], stated=counts),
        **{name: dg.MetadataValue.text(fact) for name, fact in facts.items() if isinstance(fact, str)},
        **plotted(
            tuples=counts["tuples"],
            shift_p1=low,
            shift_median=middle,
            shift_p99=high,
            **{name: fact for name, fact in facts.items() if isinstance(fact, int | float)},
        ),
        **in_words(epochs=counts["epochs"], tuple_bytes=counts["size_bytes"] / counts["tuples"]),
    }


_WINDOW = of(packages_split, "sequence", "right_flank")
_ALLELES = of(packages_split, *(f"variants.{name}" for name in ("source", "chrom", "pos", "ref", "alt")))
_EDITS = _WINDOW + of(packages_split, "contig", "start", "strand") + _ALLELES
_STATES = of(packages_split, "cache_key", "cache_row")

tuples_frozen = GatedAsset(
    key="tuples/frozen",
    description="""
    One row per visit of a training window in the first epochs: its tuples, with the states of both windows.

    Encoding edited windows costs more than all else in training, and people train many times on the same data.
    `GenoLeWMDataset(package, frozen=ROOT)` gives the batches that it would draw, at the speed of memory and without an
    encoder. Has no partitions, and is never built, unless `packages.frozen_epochs` in the catalogue asks for epochs.
    """,
    kinds={"pytorch", "huggingface", "h100"},
    code_version="3",
    place=lambda workspace, release: frozen_location(release, read_latest(workspace.root.path, release).path),
    deps=(on_key_of(BY_FROZEN_RELEASE, packages_split),),
    partitions=BY_FROZEN_RELEASE,
    automation=RECOMPUTED,
    table=FROZEN_ROWS,
    sources={
        **made_here("row", "key"),
        "window_id": of(packages_split, "window_id"),
        **dict.fromkeys(("redraws", "places", "bases", "alts", "target_tokens"), _EDITS),
        "facts": _EDITS + of(packages_split, "variants.clinvar_id", "variants.gene_ids"),
        "codes": _EDITS + of(packages_split, "variants.label", "variants.stars"),
        "gene_ids": of(packages_split, "variants.gene_ids"),
        "source_tokens": of(packages_split, "sequence"),
        "source_states": _EDITS + _STATES,
        "target_states": _EDITS,
    },
    checks=FROZEN_CHECKS,
    plan=plan_frozen,
    entries={
        "tuples, epochs": "tuples of all epochs, and the number of epochs",
        "tuple_bytes": "bytes on disk divided by the number of tuples",
        "shift_p1, shift_median, shift_p99": (
            "1st, 50th and 99th percentile of the Euclidean distance between the states of a tuple, over at most 64 "
            "visits"
        ),
        "tuples_encoded, encoding_s": "edited windows that the run encoded itself, seconds that it took with writing",
        "device, compute, dtype, torch, transformers": (
            "what the run that built the rows computed states on, in which precision, stored as what, with which "
            "libraries"
        ),
    },
    describe=describe_frozen,
    pictured=False,
    h100=True,
    shelf=FROZEN,
    array_store=True,
    resumable=True,
)
