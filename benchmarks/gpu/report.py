"""The table of a run of the kit, and which aims hold; the standard library alone is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.shapes import SHAPES

#: Figures by name of what was measured.
Found = Mapping[str, Mapping[str, Any]]

_TOKENS = 12_288 // 6 + 2
_MIB = 1 << 20
#: Aims: share of the rate of products, of the rate without writing, and times the rate of whole windows.
_OF_PRODUCTS, _OF_BARE, _TIMES_WHOLE = 0.60, 0.95, 4.0
_PRECISIONS = ("bfloat16", "float32")
_HEAD = "| what | items | items/s | TFLOP/s | share of products | ratio | accelerator MiB | more |"


def read_results(results: Path) -> list[dict[str, Any]]:
    """Return the records of a file, the last of each part and name; a line that is cut off is left out."""
    found = dict[tuple[str, str], dict[str, Any]]()
    for line in results.read_text().splitlines() if results.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[record["part"], record.get("name", "")] = record
    return list(found.values())


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all records, the parts that did not end well, and the aims."""
    about = next(record for record in records if record["part"] == "about")
    found = {record["name"]: record for record in records if "name" in record}
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    clock = "wall-clock" if about["device"] == "cuda" else "CPU"
    lines = [f"**{about['card']}, {about['shape']}, {about['date']}** ({versions}); rates per {clock} second", ""]
    lines += [_HEAD, "|---|---:|---:|---:|---:|---:|---:|---|"]
    lines += [_row(name, found, about["shape"]) for name in found]
    for record in records:
        if record.get("ended", "done") != "done":
            lines.append(f"| part {record['part']} | {_plain(record['ended'])} | | | | | | |")
    lines += ["", "| aim | measured | |", "|---|---|---|", *_aims(found, about["shape"])]
    return "\n".join(lines) + "\n"


def _row(name: str, found: Found, shape: str) -> str:
    figures = found[name]
    if "failure" in figures:
        return f"| {name} | {_plain(figures['failure'])} | | | | | | |"
    items, rate = figures.get("items"), figures.get("rate")
    done, share, ratio = _tflops(name, figures, shape), _share(name, found, shape), _ratio(name, found)
    memory = figures.get("accelerator_bytes")
    cells = [
        "" if items is None else f"{items:,.4g}" if items >= 1e6 else f"{items:,}",
        "" if rate is None else f"{rate:,.4g}",
        "" if done is None else f"{done:,.3g}",
        "" if share is None else f"{share:.0%}",
        "" if ratio is None else f"{ratio:.2f}",
        f"{memory / _MIB:,.0f}" if memory else "",
        _more(figures),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _more(figures: Mapping[str, Any]) -> str:
    """Return the figures that have no column of their own."""
    shown = {"part", "name", "items", "rate", "accelerator_bytes", "runs", "prepare_s"}
    return _plain(
        "; ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in figures.items()
            if key not in shown and value is not None
        )
    )


def _tflops(name: str, figures: Mapping[str, Any], shape: str) -> float | None:
    """Return 10^12 operations a second: of products as they are, of whole windows by the model's size."""
    if "rate" not in figures:
        return None
    if name.endswith(" products"):
        return float(figures["rate"]) / 1e12
    whole = name.startswith(("plain loop", "encoder", "cache of", "edits, whole"))
    return float(figures["rate"]) * SHAPES[shape].window_flops(_TOKENS) / 1e12 if whole else None


def _share(name: str, found: Found, shape: str) -> float | None:
    """Return the operations a second as a share of the rate of products of the same precision."""
    products = next((found.get(f"{each} products", {}) for each in _PRECISIONS if each in name), {})
    done = _tflops(name, found[name], shape)
    if done is None or "rate" not in products or name.endswith(" products"):
        return None
    return done * 1e12 / float(products["rate"])


def _ratio(name: str, found: Found) -> float | None:
    """Return the ratio to what the row is compared with: without writing, whole windows, or the plain loop."""
    if name.endswith(", with writing"):
        other = name.removesuffix(", with writing")
    elif name.startswith("edits, from the first changed token"):
        other = name.replace("from the first changed token", "whole windows")
    elif name.startswith(("plain loop", "encoder")):
        other = "plain loop, bfloat16" if "bfloat16" in name else "plain loop, float32"
    else:
        return None
    rates = [found.get(each, {}).get("rate") for each in (name, other)]
    return float(rates[0] / rates[1]) if rates[0] and rates[1] else None


def _aims(found: Found, shape: str) -> Iterator[str]:
    for compute in _PRECISIONS:
        encoded = {name: _share(name, found, shape) for name in found if name.startswith(f"encoder, {compute}")}
        shares = {name: share for name, share in encoded.items() if share is not None and "writing" not in name}
        best = max(shares, key=lambda name: shares[name], default="")
        aim = f"encoding at {_OF_PRODUCTS:.0%} of the rate of products, {compute}"
        yield _aim(aim, shares.get(best), _OF_PRODUCTS, f"{shares[best]:.0%} ({best})" if best else "")
    for name in [name for name in found if name.endswith("with writing")]:
        ratio = _ratio(name, found)
        yield _aim(f"{_OF_BARE:.0%} of the bare rate: {name}", ratio, _OF_BARE, f"{ratio or 0:.0%}")
    for name in [name for name in found if name.startswith("edits, from")]:
        ratio = _ratio(name, found)
        yield _aim(f"{_TIMES_WHOLE:g} times whole windows: {name}", ratio, _TIMES_WHOLE, f"{ratio or 0:.2f}")
    for name, figures in found.items():
        if name.startswith("null edit"):
            # 0.02 of an SNV's change is the bound of the check null_edit_bounded.
            ratio = figures.get("ratio")
            yield _aim(f"below 0.02: {name}", None if ratio is None else -ratio, -0.02, f"{ratio}")
        elif "passed" in figures:
            yield f"| passed: {name} | {figures['passed']} | {'holds' if figures['passed'] else '**not met**'} |"


def _aim(aim: str, value: float | None, least: float, words: str) -> str:
    if value is None:
        return f"| {aim} | not measured | |"
    return f"| {aim} | {words} | {'holds' if value >= least else '**not met**'} |"


def _plain(text: object) -> str:
    return str(text).replace("|", "/").replace("\n", " ")
