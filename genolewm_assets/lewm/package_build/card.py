"""Render the dataset card of a package: ``README.md`` with the front matter that Hugging Face datasets reads.

All figures come from ``package.json``, so card and package always agree. The text is part of the published bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import yaml

from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts import Holdout
from genolewm_assets.lewm.package_build.checks import realised_mix
from genolewm_assets.lewm.packages import (
    HOLDOUT_PATHS,
    REFERENCE_ORIGIN,
    PackageInfo,
    controls_path,
    variants_path,
    window_pattern,
)

#: Split name in the card for tables that are not divided into splits; ``all`` is reserved by Hugging Face datasets.
_UNDIVIDED = "holdout"

_DEFINITIONS = {
    Holdout.CHR: "whole contigs",
    Holdout.CLINVAR: "gene components: all their alleles, of any class and source, and every window that meets one",
    Holdout.HAPLOTYPES: "blocks of neighbouring common alleles, with every window that meets one",
    Holdout.TEMPORAL: "alleles labelled at the later ClinVar release only; alleles, not windows, leave training",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

_USE = """\
```python
import datasets

windows = datasets.load_dataset("path/to/this/folder", split="train")
alleles = datasets.load_dataset("path/to/this/folder", "variants", split="train")
```

```python
from genolewm_assets.lewm import GenoLeWMDataset, GenoLeWMValDataset
```

`sha256sum -c SHA256SUMS` verifies the files, `genolewm package verify DIR` also the caches that they point into.
Coordinates: `start`, `end` are 0-based half-open, `pos` is 1-based as in VCF."""

_LIMITS = """\
- The encoder whose states a predictor learns from was itself pretrained on the human genome, held-out contigs included:
  these holdouts bound what the predictor has seen, not what the encoder has.
- `validation` is for watching training; `test` has its own files and its own digest, and is for the final figure.
- A training window does not meet a held-out stretch, but may overlap the part of an evaluation window outside of it.
- Flagged windows touch a segmental duplication or an excluded region of the reference: report results on them apart
  (columns `segmental_duplication`, `excluded_region`; null where the catalogue has no such track).
- Indels change the 6-mer frame of everything behind them, which moves a causal encoder's states by itself. The
  re-framed windows under `controls/` are unedited and moved by 1 to 5 bp: what that alone does."""

_TERMS = """\
Those of the sources named above. Of the public ones: GRCh38 sequence is unrestricted; gnomAD is open, please cite it;
ClinVar is in the public domain, and not for diagnosis; corpus windows follow the corpus they were taken from."""


def render_card(info: PackageInfo) -> str:
    """Return the text of ``README.md`` for a package."""
    front = yaml.safe_dump(_front_matter(info), sort_keys=False, allow_unicode=True, width=10_000)
    sections = [
        f"# Windows and alleles for genomic world models, ClinVar {info.release}",
        "Windows of the reference genome and of a pretraining corpus with their sequences, the normalised alleles that "
        "edits are drawn from, and the holdouts that training never sees.",
        f"## Splits\n\n{_splits(info)}{_empty_splits(info)}",
        f"## Holdouts\n\n{_holdouts(info)}\n\n{_shortfalls(info)}",
        f"## Training windows\n\n{_origins(info)}\n\n{_mix(info)}",
        f"## Made from\n\n{_provenance(info)}",
        f"## Use\n\n{_USE}",
        f"## Limits\n\n{_LIMITS}",
        f"## Terms\n\n{_TERMS}",
    ]
    return f"---\n{front}---\n\n" + "\n\n".join(sections) + "\n"


def _front_matter(info: PackageInfo) -> dict[str, object]:
    rows = {entry.path: entry.rows or 0 for entry in info.files}
    windows = {split: (window_pattern(split), info.splits[split].windows) for split in Split}
    variants = {split: (variants_path(split), info.splits[split].variants) for split in Split}
    controls = {split: (controls_path(split), info.splits[split].controls) for split in Split}
    configs = [_config("windows", windows) | {"default": True}, _config("variants", variants)]
    configs.append(_config("controls", controls))
    configs += [_config(f"holdout_{noun}", {_UNDIVIDED: (path, rows[path])}) for noun, path in HOLDOUT_PATHS.items()]
    total = sum(split.windows for split in info.splits.values())
    return {
        "pretty_name": f"GenoLeWM windows and alleles, ClinVar {info.release}",
        "license": "other",
        "tags": ["biology", "genomics", "dna", "variants"],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "n>1M")],
        "configs": [config for config in configs if config["data_files"]],
    }


def _config(name: str, files: dict[Split, tuple[str, int]] | dict[str, tuple[str, int]]) -> dict[str, object]:
    # Hugging Face datasets refuses a split without rows; such a split is left out here and named in the text.
    paths = [{"split": str(split), "path": path} for split, (path, n) in files.items() if n]
    return {"config_name": name, "data_files": paths}


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _splits(info: PackageInfo) -> str:
    rows = [
        (f"`{split}`", s.windows, s.variants, s.controls, f"`{s.sha256}`")
        for split, s in ((split, info.splits[split]) for split in Split)
    ]
    return _table(("split", "windows", "alleles", "re-framed windows", "SHA-256 over its files"), rows)


def _empty_splits(info: PackageInfo) -> str:
    empty = [f"`{split}`" for split in Split if not info.splits[split].windows]
    return f"\n\nWithout a window, and therefore not loadable by `datasets`: {', '.join(empty)}." if empty else ""


def _holdouts(info: PackageInfo) -> str:
    came, counts = info.counts.get(f"windows.{REFERENCE_ORIGIN}.in", 0), info.counts
    rows = []
    for name in Holdout:
        removed = counts.get(f"removed.{name}.windows", 0)
        share = f"{removed:,} ({removed / came:.2%})" if came else "0"
        found = [f"{counts.get(f'validation.{name}.{what}', 0):,}" for what in ("windows", "available")]
        alleles = [
            sum(counts.get(f"{split}.{name}.{source}_alleles", 0) for source in ("gnomad", "clinvar"))
            for split in (Split.VALIDATION, Split.TEST)
        ]
        test, flagged = (counts.get(f"test.{name}.{what}", 0) for what in ("windows", "flagged_windows"))
        rows.append((f"`{name}`", _DEFINITIONS[name], share, " of ".join(found), test, flagged, *alleles))
    header = ("holdout", "what is held out", "reference windows that leave training", "validation windows")
    return _table((*header, "test windows", "of them flagged", "validation alleles", "test alleles"), rows)


def _shortfalls(info: PackageInfo) -> str:
    limit = info.policy.get("validation_windows")
    short = {name: n for name in Holdout if (n := info.counts.get(f"validation.{name}.shortfall", 0))}
    if not short:
        return f"Every holdout has the {limit} validation windows that were asked for, chosen by hash."
    listed = ", ".join(f"`{name}` {n:,}" for name, n in short.items())
    return f"Shortfall: of the {limit} validation windows asked for there are no more; missing are {listed}."


def _origins(info: PackageInfo) -> str:
    origins = sorted({name.split(".")[1] for name in info.counts if name.startswith("windows.")})
    rows = [
        (f"`{origin}`", *(info.counts.get(f"windows.{origin}.{outcome}", 0) for outcome in _OUTCOMES))
        for origin in origins
    ]
    return _table(("origin", "windows", "held out", "copies of held-out windows", "in train"), rows)


_OUTCOMES = ("in", "held_out", "equal_to_held_out", "train")


def _mix(info: PackageInfo) -> str:
    realised = realised_mix(info)
    rows = [(f"`{name}`", f"{share:.0%}", f"{realised.get(name, 0):.1%}") for name, share in info.mix.items()]
    table = _table(("corpus source", "share of tuples aimed at", "share that the windows can give"), rows)
    note = " A share off its target was accepted when the package was made." if info.mix_declared else ""
    return f"{table}\n\nReference windows count to `eukaryote_generator`.{note}"


def _provenance(info: PackageInfo) -> str:
    facts = [("ClinVar release", info.release), ("digest of the genome", f"`{info.genome_digest}`")]
    facts += [("flanks", f"{info.margin_bp} bp on either side")]
    facts += [(name, version) for name, version in sorted(info.sources.items())]
    facts += [(f"holdouts: {name}", _setting(value)) for name, value in sorted(info.policy.items())]
    facts += [(f"states of {ref.source}", f"`{ref.path}`, {ref.rows:,} rows") for ref in info.caches]
    return _table(("what", "which"), facts)


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "not set" if value is None else str(value)
