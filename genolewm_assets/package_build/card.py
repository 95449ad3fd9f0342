"""Render ``README.md`` of a package from ``package.json`` alone; the text is part of the published bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby

import yaml

from genolewm_assets.genome import EVALUATION, Holdout, Split
from genolewm_assets.holdouts import BY_REPEATS, Buffer, SimilarReason, describe_temporal
from genolewm_assets.package_build.card_header import front_matter, own_windows
from genolewm_assets.package_build.rows import HARMFUL_UNDER_STARS, UNDER_STARS
from genolewm_assets.package_build.sharing import FLANKS, FLANKS_MOST_BP, SHARED_MOST_BP, SHARED_WINDOWS
from genolewm_assets.package_build.statements import (
    COORDINATES,
    DEFINITIONS,
    LICENSES,
    SUMMARY,
    UNMASKED,
    statements,
    title,
)
from genolewm_assets.packages import (
    REFERENCE_ORIGIN,
    SCORED,
    SPECIFICATION,
    Knowledge,
    PackageInfo,
    Shares,
    VariantSource,
    as_specified,
)
from genolewm_assets.windows.corpus import CorpusSource

#: Distance of a share from the specification's that needs no remedy.
_NEAR = 0.005
_FOLDER = "path/to/this/folder"

_VERIFY = """\
Datasets open a package that passed its audit: copy `audits/` of its root beside it, or pass `allow_unaudited=True`.
`genolewm package verify DIR` verifies the files and the caches that they point into; without it, the files:
`jq -r '.files[]|.sha256+"  "+.path' manifest.json | sha256sum -c`.
`arrays/` and `bases.npy` repeat windows and alleles as NumPy files, which the data sets of `genolewm_assets` map; the
tables are whole without them. `croissant.json` describes them for programs; `genolewm package cite DIR` prints how to
cite the package and its sources.
{coordinates}"""

_NO_STATES = """\
**This package has no states.** It was built without an encoder (`encoder: off` in the catalogue, or
`GENOLEWM_WITHOUT_STATES=1`): trainers read tokens, edits and labels with `with_states=False`, or compute states with
`encoder=`. A build of the same root with states makes another package, which refers to them.

"""

_PIECES = """

Windows of `train` are in the tables under `pieces/`, which releases share: {shown:,} of {total:,} rows train, those for
which `trains.npy` beside the table is true. **{unmasked}**"""

_BLOCKS = """\
**This is a teaching package.** Blocks of {size:,} bp are held out of contigs that train otherwise: repeats, paralogs
and linked alleles join a block to its neighbours, and an encoder that was pretrained on the genome has read every
block. Scores on it say that a method runs, not that it predicts unseen sequence: for that, hold out whole contigs."""

_POSSIBLE = """\
Origins have the wanted shares where they have windows; reference and `eukaryote_generator` windows take each other's
share, other shares are divided in proportion. Only placed windows have real alleles. A visit gives at most half of
its slots to ClinVar (P, LP) and the others to gnomAD, as far as its window has alleles; windows with alleles are
visited more often, within the bound on visits. What is still lacking cannot be served from these windows: synthetic
edits take its place, and the mix must declare it."""


def render_card(info: PackageInfo) -> str:
    """Return the text of ``README.md`` for a package."""
    front = yaml.safe_dump(front_matter(info), sort_keys=False, allow_unicode=True, width=10_000)
    sections = [
        f"# {title(info)}",
        SUMMARY,
        f"## Splits\n\n{_splits(info)}",
        f"## Holdouts\n\n{_holdouts(info)}{_blocks(info)}\n\n{_shortfalls(info)}{_haplotypes(info)}\n\n{_time(info)}",
        f"## Bench\n\n{_bench(info)}",
        f"## Training windows\n\n{_origins(info)}\n\n{_similar(info)}\n\n{_shared(info)}\n\n{_mix(info)}\n\n"
        f"{_training_alleles(info)}",
        f"## Made from\n\n{_provenance(info)}",
        f"## Use\n\n{'' if info.caches else _NO_STATES}{_use(info)}\n\n{_VERIFY.format(coordinates=COORDINATES)}",
        *(f"## {headline}\n\n{_bullets(texts)}" for _, headline, texts in statements(info)),
        f"## Sources\n\n{_sources(info)}",
    ]
    return f"---\n{front}---\n\n" + "\n\n".join(sections) + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = ((f"{value:,}" if isinstance(value, int) else str(value) for value in line) for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _splits(info: PackageInfo) -> str:
    splits = ((split, info.splits[split]) for split in Split)
    rows = [(f"`{split}`", s.windows, s.variants, s.controls, f"`{s.sha256}`") for split, s in splits]
    text = _table(("split", "windows", "alleles", "re-framed windows", "SHA-256 over its files"), rows)
    empty = [f"`{split}`" for split in Split if not info.splits[split].windows]
    text += f"\n\nWithout a window, and therefore not loadable by `datasets`: {', '.join(empty)}." if empty else ""
    if info.pieces:
        shown, total = (sum(getattr(ref, name) for ref in info.pieces) for name in ("training", "rows"))
        text += _PIECES.format(shown=shown, total=total, unmasked=UNMASKED)
    return text


def _holdouts(info: PackageInfo) -> str:
    came, counts = info.counts.get(f"windows.{REFERENCE_ORIGIN}.in", 0), info.counts
    rows = []
    for name in Holdout:
        removed = counts.get(f"removed.{name}.windows", 0)
        share = f"{removed:,} ({removed / came:.2%})" if came else "0"
        found = [f"{counts.get(f'validation.{name}.{what}', 0):,}" for what in ("windows", "available")]
        alleles = [
            sum(counts.get(f"{split}.{name}.{source}_alleles", 0) for source in ("gnomad", "clinvar"))
            for split in EVALUATION
        ]
        test, flagged = (counts.get(f"test.{name}.{what}", 0) for what in ("windows", "flagged_windows"))
        rows.append((f"`{name}`", DEFINITIONS[name], share, " of ".join(found), test, flagged, *alleles))
    header = ("holdout", "what is held out", "reference windows that leave training", "validation windows")
    return _table((*header, "test windows", "of them flagged", "validation alleles", "test alleles"), rows)


def _blocks(info: PackageInfo) -> str:
    """Return what it means that blocks of contigs are held out; empty if whole contigs are."""
    size = info.policy.get("block_bp")
    return f"\n\n{_BLOCKS.format(size=size)}" if size else ""


def _time(info: PackageInfo) -> str:
    """Return T0 with its reason, and the release whose labels training has."""
    said = describe_temporal(info.policy, info.release)
    known = {
        Knowledge.NEWEST: f"training has the labels of {info.release} of every allele outside the holdouts",
        Knowledge.T0: "training has the alleles and labels of T0, as if nothing after it were known",
    }
    return f"Time: {said}. Knowledge `{info.knowledge}`: {known[info.knowledge]}."


def _shortfalls(info: PackageInfo) -> str:
    limit = info.policy.get("validation_windows")
    short = {name: n for name in Holdout if (n := info.counts.get(f"validation.{name}.shortfall", 0))}
    if not short:
        return f"Every holdout has the {limit} validation windows that were asked for, chosen by hash."
    listed = ", ".join(f"`{name}` {n:,}" for name, n in short.items())
    return f"Shortfall: of the {limit} validation windows asked for there are no more; missing are {listed}."


def _haplotypes(info: PackageInfo) -> str:
    """Return the share of windows that haplotype blocks remove, and why it is less than the aim, if it is."""
    counts, aim = info.counts, info.policy.get("haplotype_fraction")
    blocks, total = counts.get("haplotype_blocks"), counts.get(f"windows.{REFERENCE_ORIGIN}.in", 0)
    if blocks is None or not isinstance(aim, float) or not total:
        return ""
    removed, held = counts.get(f"removed.{Holdout.HAPLOTYPES}.windows", 0), counts["haplotype_blocks.held_out"]
    text = (
        f"\n\nHaplotype blocks: {held:,} of {blocks:,} are held out ({counts['haplotype_blocks.phased']:,} of all are "
        f"phased); they remove {removed / total:.2%} of the reference windows, the aim is {aim:.2%}."
    )
    if counts["haplotype_blocks.used_up"]:
        most = info.policy.get("haplotype_max_blocks")
        limited = f"`haplotype_max_blocks` allows no more than {most:.0%} of the blocks to be held out"
        too_large = "every further block would remove too many windows"
        text += f" The aim is not reached: {limited if held == counts['haplotype_blocks.at_most'] else too_large}."
    kept = {split: counts.get(f"{split}.{Holdout.HAPLOTYPES}.windows_without_haplotype", 0) for split in EVALUATION}
    lost = sum(
        counts.get(f"{split}.{Holdout.HAPLOTYPES}.{source}_alleles_in_no_window", 0)
        for split in EVALUATION
        for source in VariantSource
    )
    return text + (
        f" Left out are {sum(kept.values()):,} windows in which no two alleles of one haplotype can be edits of one "
        f"tuple, and {lost:,} alleles that stand in no window of this holdout."
    )


def _bench(info: PackageInfo) -> str:
    """Return the number of alleles scored, and of those not shown by reason, of every holdout and split."""
    stars, rows = info.policy.get("min_stars"), []
    for holdout in Holdout:
        for split in EVALUATION:
            head = f"scoring.{holdout}.{split}."
            found = {name[len(head) :]: n for name, n in info.counts.items() if name.startswith(head) and n}
            if not found:
                continue
            reasons = ", ".join(f"{why} {n:,}" for why, n in sorted(found.items()) if why != SCORED)
            extra = info.counts.get(f"{split}.{holdout}.scoring_windows", 0)
            rows.append((f"`{holdout}`", f"`{split}`", found.get(SCORED, 0), reasons or "none", extra))
    if not rows:
        return f"No ClinVar allele labelled P, LP, B or LB with {stars} review stars is held out: there is no bench."
    header = ("holdout", "split", "alleles scored", "not shown, by reason", "windows for scoring alone")
    return (
        f"The ClinVar alleles labelled P, LP, B or LB with at least {stars} review stars. A dataset with "
        '`coverage="alleles"` shows each once, alone, in the window in which it is most central. Rows of '
        "`variants` name them in the column `scoring`. Windows for scoring alone (`frozen` is false) are not in the "
        f"stream of validation windows.\n\n{_table(header, rows)}"
    )


def _training_alleles(info: PackageInfo) -> str:
    """Say how many alleles training has of each source; warn where there is none."""
    inside = {s: info.counts.get(f"alleles.{s}.train", 0) for s in VariantSource}
    text = f"Alleles in train: {', '.join(f'{source} {n:,}' for source, n in inside.items())}."
    if stars := info.mix.min_training_stars:
        out, harmful = (info.counts.get(f"alleles.clinvar.{name}", 0) for name in (UNDER_STARS, HARMFUL_UNDER_STARS))
        text += (
            f" `packages.min_training_stars: {stars}` leaves out {out:,} ClinVar alleles with fewer review stars, "
            f"{harmful:,} of them P or LP."
        )
    absent = [source for source in VariantSource if not info.counts.get(f"alleles.{source}.in", 0)]
    if absent:
        text += f" The inputs have no allele of {' and '.join(absent)}."
    if info.without_alleles:
        text += (
            " That training windows may contain no gnomAD allele or no P or LP ClinVar allele was accepted when the "
            "package was made; synthetic edits take their place."
        )
    return text


def _use(info: PackageInfo) -> str:
    """Return snippets that run on this package: only splits with rows can be loaded."""
    lines = ["import datasets", ""]
    alleles = {split: info.splits[split].variants for split in Split}
    windows = {split: own_windows(info, split) for split in Split}
    for noun, config, rows in (("windows", "", windows), ("alleles", '"variants", ', alleles)):
        split = next((str(split) for split, n in rows.items() if n), None)
        if split is not None:
            lines.append(f'{noun} = datasets.load_dataset("{_FOLDER}", {config}split="{split}")')
    if info.pieces:
        lines += ["", "import numpy, pyarrow.parquet", "", f'piece = "{_FOLDER}/pieces/{info.pieces[0].source}"']
        lines.append('rows = pyarrow.parquet.read_table(f"{piece}/windows.parquet")')
        lines.append('train = rows.filter(numpy.load(f"{piece}/trains.npy"))')
    options = "" if info.caches else ", with_states=False"
    names = {Split.VALIDATION: "GenoLeWMValDataset", Split.TEST: "GenoLeWMTestDataset"}
    opened = [("GenoLeWMDataset", f'train = GenoLeWMDataset("{_FOLDER}"{options})')]
    for split, holdout in ((split, holdout) for split in EVALUATION for holdout in Holdout):
        if len(opened) == 1 and info.counts.get(f"scoring.{holdout}.{split}.{SCORED}", 0):
            call = f'{names[split]}("{_FOLDER}", "{holdout}", coverage="alleles"{options})'
            opened.append((names[split], f"bench = {call}"))
    imported = f"from genolewm_assets.lewm import {', '.join(name for name, _ in opened)}"
    return "\n\n".join(
        "\n".join(["```python", *block, "```"]) for block in (lines, [imported, "", *(call for _, call in opened)])
    )


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _sources(info: PackageInfo) -> str:
    rows = [(name, *map(escape, (each.release, each.license, each.citation))) for name, each in info.terms.items()]
    return f"{LICENSES}\n\n{_table(('source', 'release', 'licence (SPDX)', 'how to cite'), rows)}"


def _origins_of(info: PackageInfo) -> list[str]:
    return sorted({name.split(".")[1] for name in info.counts if name.startswith("windows.")})


def _origins(info: PackageInfo) -> str:
    outcomes = ("in", "held_out", "equal_to_held_out", "beside_evaluation", "train")
    rows = [
        (f"`{origin}`", *(info.counts.get(f"windows.{origin}.{outcome}", 0) for outcome in outcomes))
        for origin in _origins_of(info)
    ]
    return _table(
        ("origin", "windows", "held out", "copies of held-out windows", "removed beside them", "in train"), rows
    )


def _similar(info: PackageInfo) -> str:
    """Say what the comparison with held-out sequence cost, by origin."""
    rows = []
    for origin in _origins_of(info):
        n = {name: info.counts.get(f"similar.{origin}.{name}", 0) for name in (*SimilarReason, BY_REPEATS)}
        dropped = sum(n.values()) - n[BY_REPEATS]
        share = f"{dropped / max(1, info.counts[f'windows.{origin}.in']):.2%}"
        rows.append((f"`{origin}`", *n.values(), share))
    reasons = (f"`{name}`" for name in (*SimilarReason, BY_REPEATS))
    return (
        "Windows that are held out although they are not known to be from a held-out place, because their bases are "
        "similar to held-out sequence, by reason; those in the column `repeats`, an estimate from one in 32 of a large "
        "piece, are similar by repeats alone, and train.\n\n"
        + _table(("origin", *reasons, "share of the origin held out"), rows)
    )


def _shared(info: PackageInfo) -> str:
    """Say what training windows share with evaluation windows, and in their left flanks with held-out intervals."""
    windows, most, flanks, flanks_most = (
        info.counts.get(name, 0) for name in (SHARED_WINDOWS, SHARED_MOST_BP, FLANKS, FLANKS_MOST_BP)
    )
    text = (
        "No training window with a place meets a held-out interval. Beside these intervals, and with right flanks, "
        f"{windows:,} training windows share bases with an evaluation window of a holdout of intervals (one shares "
        f"{most:,} bases, no other more). The left flanks of {flanks:,} have held-out bases (at most {flanks_most:,}); "
        'trainers see them with `length_policy="left_flank"` or `"opposite"` only.'
    )
    if info.policy.get("buffer") != Buffer.WINDOWS:
        return f"{text} `holdouts.buffer: windows` in the catalogue removes them from training."
    removed = sum(n for name, n in info.counts.items() if name.endswith(".beside_evaluation"))
    left = sum(n for name, n in info.counts.items() if name.startswith("windows.") and name.endswith(".train"))
    lost = (f"{info.counts.get(f'alleles.{s}.train_beside_evaluation', 0):,} {s} alleles" for s in VariantSource)
    share = removed / max(1, removed + left)
    return (
        f"{text} `holdouts.buffer: windows` removed {removed:,} windows that shared some, {share:.1%} of those that "
        f"would train; {' and '.join(lost)} of train are in these windows alone, so no edit shows them."
    )


def _mix(info: PackageInfo) -> str:
    epoch, wanted = info.epoch, info.mix.wanted
    if epoch is None or not epoch.tuples:
        return f"No epoch can be served: {epoch and epoch.error}"
    declared = info.mix.declared if isinstance(info.mix.declared, Shares) else wanted
    tables = []
    for what, group in (("windows of", "windows"), ("edits from", "edits")):
        shares = [getattr(each, group) for each in (wanted, declared, epoch.planned)]
        names = sorted({name for each in shares for name in each})
        rows = [(f"`{name}`", *(f"{each.get(name, 0):.1%}" for each in shares)) for name in names]
        tables.append(_table((what, "wanted", "declared", "planned"), rows))
    visits = [
        (f"`{name}`", one.windows, one.visits, f"{one.median:g}", f"{one.high:g}", one.most, one.unseen)
        for name, one in sorted(epoch.visits.items())
    ]
    header = ("stratum", "windows", "visits", "median", "99 %", "most", "not visited in this epoch")
    made = f"An epoch has {epoch.tuples:,} tuples. `packages/audit` states the shares of those that it draws."
    distance = _distance(epoch.planned, wanted)
    return "\n\n".join((made, *tables, _POSSIBLE, distance, _table(header, visits)))


def _distance(planned: Shares, wanted: Shares) -> str:
    """Return how far every planned share is from the specification's, and what would close the distance."""
    found, rows = as_specified(planned), []
    for what, group in (("windows of", "windows"), ("edits from", "edits")):
        stated, ours = getattr(SPECIFICATION, group), getattr(found, group)
        for name in sorted({*stated, *ours}):
            one, other = stated.get(name, 0.0), ours.get(name, 0.0)
            rows.append((f"{what} `{name}`", f"{one:.1%}", f"{other:.1%}", f"{round(100 * (other - one), 1) + 0:+}"))
    table = _table(("share", "specification", "planned", "percentage points"), rows)
    head = "Distance from the shares of RFC-0006 (reference windows count as `eukaryote_generator`):"
    return f"{head}\n\n{table}\n\n{_closing(found, wanted)}"


def _closing(found: Shares, wanted: Shares) -> str:
    """Say in one sentence what would bring the planned shares to the specification's."""
    steps = []
    if replace(SPECIFICATION, edits=found.edits).farthest(found) > _NEAR:
        steps.append("windows of all four corpus sources and `packages.mix` without shares of its own")
    if replace(SPECIFICATION, windows=wanted.windows).farthest(wanted):
        shares = ", ".join(f"{name}: {share:g}" for name, share in SPECIFICATION.edits.items())
        steps.append(f"`packages.edits: {{{shares}}}`")
    if any(SPECIFICATION.edits[source] - found.edits.get(source, 0.0) > _NEAR for source in VariantSource):
        if wanted.windows.get(CorpusSource.EUKARYOTE_GENERATOR):
            steps.append("`packages.reference_share: 1.0`, as placed windows alone have real alleles")
        else:
            steps.append("a real allele for every slot of the reference windows, or more of these (`packages.mix`)")
    if not steps:
        return f"The farthest share is {100 * SPECIFICATION.farthest(found):.1f} points away."
    return f"What would close it, as far as alleles allow: {'; '.join(steps)}."


def _provenance(info: PackageInfo) -> str:
    facts = [("ClinVar release", info.release), ("digest of the genome", f"`{info.genome_digest}`")]
    facts += [("flanks", f"{info.margin_bp} bp on either side")]
    facts += [(name, version) for name, version in sorted(info.sources.items())]
    facts += [(f"holdouts: {name}", _setting(value)) for name, value in sorted(info.policy.items())]
    for name, refs in groupby(info.caches, key=lambda ref: ref.source.partition("-")[0]):
        (first, *rest), more = list(refs), ""
        if rest:
            more = f" and those of {len(rest)} further pieces, {sum(ref.rows for ref in rest):,} rows"
        facts.append((f"states of {name}", f"`{first.path}`, {first.rows:,} rows{more}"))
    return _table(("what", "which"), facts)


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "not set" if value is None else str(value)
