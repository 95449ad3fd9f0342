"""Head of ``README.md`` of a package, which the Hugging Face Hub reads: tables by configuration and split."""

from __future__ import annotations

from genolewm_assets.genome import Split
from genolewm_assets.packages import (
    CONTEXTS_PATH,
    HOLDOUT_PATHS,
    PIECE_WINDOWS,
    REFERENCE_ORIGIN,
    PackageInfo,
    controls_path,
    piece_path,
    variants_path,
    window_pattern,
)

#: Split name in the card for tables that are not divided into splits; ``all`` is reserved by Hugging Face datasets.
_UNDIVIDED = "holdout"

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def front_matter(info: PackageInfo) -> dict[str, object]:
    """Return the head as it is written in YAML."""
    rows = {entry.path: entry.rows or 0 for entry in info.files}
    windows = {split: (window_pattern(split), own_windows(info, split)) for split in Split}
    variants = {split: (variants_path(split), info.splits[split].variants) for split in Split}
    controls = {split: (controls_path(split), info.splits[split].controls) for split in Split}
    configs = [_config("windows", windows) | {"default": True}, _config("variants", variants)]
    configs.append(_config("controls", controls))
    for name, of_reference in (("pieces_reference", True), ("pieces_corpus", False)):
        ours = [ref for ref in info.pieces if (ref.origin == REFERENCE_ORIGIN) is of_reference]
        paths = [{"split": "pieces", "path": [piece_path(ref.source, PIECE_WINDOWS) for ref in ours]}]
        configs.append({"config_name": name, "data_files": paths if ours else []})
    undivided = {**HOLDOUT_PATHS, "contexts": CONTEXTS_PATH}
    configs += [_config(f"holdout_{noun}", {_UNDIVIDED: (path, rows[path])}) for noun, path in undivided.items()]
    total = sum(split.windows for split in info.splits.values())
    return {
        "pretty_name": f"GenoLeWM windows and alleles, ClinVar {info.release}",
        "license": "other",
        "tags": ["biology", "genomics", "dna", "variants"],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "n>1M")],
        "configs": [config for config in configs if config["data_files"]],
    }


def own_windows(info: PackageInfo, split: Split) -> int:
    """Return the number of windows of a split that the package holds itself."""
    return sum(entry.rows or 0 for entry in info.split_files(split))


def _config(name: str, files: dict[Split, tuple[str, int]] | dict[str, tuple[str, int]]) -> dict[str, object]:
    # Hugging Face datasets refuses a split without rows; such a split is left out here and named in the text.
    paths = [{"split": str(split), "path": path} for split, (path, n) in files.items() if n]
    return {"config_name": name, "data_files": paths}
