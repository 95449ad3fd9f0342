from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from genolewm_assets.genome import Split
from genolewm_assets.package_build.card import render_card
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages import PRETRAINED_ON
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.mix import EDIT_SHARES, Shares, window_shares
from genolewm_assets.packages.schema import PACKAGE_VARIANTS, PACKAGE_WINDOWS
from genolewm_assets.store.artefacts import Root
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package
from genolewm_assets_tests.worlds.lewm.package_world import (
    GENOME_DIGEST,
    clinvar,
    intervals,
    make_sources,
    publish,
    with_pieces,
)

_LOAD = """
import json, socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was attempted")
socket.socket.connect = socket.getaddrinfo = refuse
import datasets
datasets.disable_progress_bars()
found = {}
for config in sys.argv[3:]:
    loaded = datasets.load_dataset(sys.argv[1], config, cache_dir=sys.argv[2])
    found[config] = {split: [d.num_rows, d.column_names] for split, d in loaded.items()}
default = datasets.load_dataset(sys.argv[1], cache_dir=sys.argv[2])
split = "train" if "train" in default else "test"
found["first"] = {key: value for key, value in default[split][0].items() if isinstance(value, (str, int))}
streamed = datasets.load_dataset(sys.argv[1], cache_dir=sys.argv[2], streaming=True, split="validation")
found["streamed"] = sum(1 for _ in streamed)
json.dump(found, sys.stdout)
"""


_RUN = """
import json, socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was attempted")
socket.socket.connect = socket.getaddrinfo = refuse
import datasets
datasets.disable_progress_bars()
for snippet in sys.argv[1:]:
    exec(compile(snippet, "README.md", "exec"), names := {})
    made = ("windows", "alleles", "train", "bench")
    print(json.dumps({name: len(names[name]) for name in made if name in names}))
"""


def front_matter(text: str) -> dict:
    _, front, _ = text.split("---\n", 2)
    return yaml.safe_load(front)


def offline(scratch: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(scratch / "home"),
    }


def load(directory: Path, scratch: Path, *configs: str) -> dict:
    command = [sys.executable, "-c", _LOAD, str(directory), str(scratch / "cache"), *configs]
    done = subprocess.run(command, env=offline(scratch), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.nightly
def test_datasets_loads_every_table_of_the_folder_without_a_network(package, tmp_path):
    info = read_package_info(package.directory)
    found = load(package.directory, tmp_path, "windows", "variants", "controls", "holdout_intervals", "holdout_corpus")
    assert found["windows"] == {str(split): [info.splits[split].windows, PACKAGE_WINDOWS.columns] for split in Split}
    assert found["variants"] == {str(split): [info.splits[split].variants, PACKAGE_VARIANTS.columns] for split in Split}
    assert {split: rows for split, (rows, _) in found["controls"].items()} == {
        split: info.splits[split].controls for split in ("validation", "test")
    }
    assert found["holdout_intervals"]["holdout"][0] == 4
    assert found["first"]["origin"] == "reference"
    assert len(found["first"]["sequence"]) == found["first"]["window_bp"]
    assert found["streamed"] == info.splits["validation"].windows


@pytest.mark.nightly
def test_datasets_loads_the_tables_that_a_package_refers_to(tmp_path):
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    directory = publish(root, with_pieces(root, make_sources())).directory
    info = read_package_info(directory)
    found = load(directory, tmp_path, "windows", "pieces_reference", "pieces_corpus")
    assert set(found["windows"]) == {"validation", "test"}
    rows = [found[f"pieces_{name}"]["pieces"][0] for name in ("reference", "corpus")]
    assert sum(rows) == sum(ref.rows for ref in info.pieces) > info.splits["train"].windows
    script, _ = snippets(directory).split("from genolewm_assets")
    done = subprocess.run(
        [sys.executable, "-c", _RUN, script], env=offline(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["train"] == info.pieces[0].training


@pytest.mark.nightly
def test_datasets_loads_a_package_in_which_splits_are_empty(tmp_path):
    sources = make_sources(
        intervals=intervals(("holdout-chr", "validation", "chr20", 100, 200)),
        alleles=make_sources().alleles.slice(0, 0),
    )
    write_package(tmp_path / "package", sources)
    found = load(tmp_path / "package", tmp_path, "windows", "variants")
    assert set(found["windows"]) == {"train", "validation"}
    assert "not loadable by `datasets`: `test`" in (tmp_path / "package" / "README.md").read_text()


def snippets(directory: Path) -> str:
    """Return the two snippets of a card under "Use" as one script."""
    text = (directory / "README.md").read_text().replace("path/to/this/folder", str(directory))
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    return "".join(blocks)


@pytest.mark.nightly
def test_the_snippets_of_the_card_run(tmp_path):
    bare = make_sources(gnomad={}, clinvar={})
    labelled = replace(bare, clinvar={"chr17": clinvar("chr17", "VUS")}, without_alleles=True)
    folders = [publish_package(tmp_path)]
    for name, sources in (("bare", bare), ("no bench", labelled)):
        root = Root(tmp_path / name)
        root.claim("tiny", GENOME_DIGEST)
        folders.append(publish(root, sources).directory)
    command = [sys.executable, "-c", _RUN, *map(snippets, folders)]
    done = subprocess.run(command, env=offline(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trains = [read_package_info(folder).splits["train"] for folder in folders]
    assert json.loads(f"[{','.join(done.stdout.splitlines())}]") == [
        {"windows": trains[0].windows, "alleles": trains[0].variants, "train": 2, "bench": 1},
        {"windows": trains[1].windows, "train": 2},
        {"windows": trains[2].windows, "alleles": trains[2].variants, "train": 2},
    ]


def test_the_card_tells_what_is_scored(package):
    text = (package.directory / "README.md").read_text()
    assert "at least 1 review stars" in text
    assert "| `holdout-chr` | `validation` | 13 | none | 2 |" in text
    info = read_package_info(package.directory)
    some = {"scoring.holdout-chr.test.beyond_flank": 3, "scoring.holdout-chr.test.in_no_window": 1_200}
    shown = render_card(replace(info, counts={**info.counts, **some}))
    assert "| `holdout-chr` | `test` | 13 | beyond_flank 3, in_no_window 1,200 | 0 |" in shown
    none = {name: 0 if name.startswith("scoring.") else n for name, n in info.counts.items()}
    assert "there is no bench" in render_card(replace(info, counts=none))


def test_front_matter_names_files_that_exist_and_only_splits_with_rows(package):
    card = front_matter((package.directory / "README.md").read_text())
    configs = {config["config_name"]: config for config in card["configs"]}
    assert [name for name, config in configs.items() if config.get("default")] == ["windows"]
    for config in configs.values():
        for entry in config["data_files"]:
            found = [path.relative_to(package.directory) for path in package.directory.glob(entry["path"])]
            assert found, entry
            assert {path.parts[0] for path in found} <= {"data", "variants", "controls", "holdouts"}
    assert [entry["split"] for entry in configs["windows"]["data_files"]] == ["train", "validation", "test"]
    assert card["size_categories"] == ["n<1K"]


def test_the_card_states_counts_shortfalls_digests_and_the_limit_of_the_encoder(package):
    info = read_package_info(package.directory)
    text = (package.directory / "README.md").read_text()
    assert text == render_card(info)
    assert "was itself pretrained on: not stated." in text
    stated = render_card(replace(info, sources={**info.sources, PRETRAINED_ON: "mouse contigs"}))
    assert "was itself pretrained on: mouse contigs." in stated
    assert "| encoder pretrained on | mouse contigs |" in stated
    missing = 10 - info.counts["validation.holdout-haplotypes.windows"]
    assert f"missing are `holdout-clinvar` 10, `holdout-haplotypes` {missing}" in text
    assert all(info.splits[split].sha256 in text for split in Split)
    removed, came = info.counts["removed.holdout-chr.windows"], info.counts["windows.reference.in"]
    assert f"| {removed:,} ({removed / came:.2%}) | 10 of 14 |" in text
    assert info.genome_digest in text


@each_row(
    ("held", "used_up", "sentence"),
    [
        (4, 1, " The aim is not reached: `haplotype_max_blocks` allows no more than 50% of the blocks to be held out."),
        (3, 1, " The aim is not reached: every further block would remove too many windows."),
        (3, 0, ""),
    ],
)
def test_the_card_states_the_share_of_haplotype_blocks_and_the_reason(package, held, used_up, sentence):
    info = read_package_info(package.directory)
    assert "Haplotype blocks:" not in render_card(info)
    blocks = {"": 9, ".held_out": held, ".phased": 2, ".at_most": 4, ".used_up": used_up}
    lost = {"test.holdout-haplotypes.clinvar_alleles_in_no_window": 4}
    counts = {**info.counts, **{f"haplotype_blocks{name}": n for name, n in blocks.items()}, **lost}
    came, removed = counts["windows.reference.in"], counts["removed.holdout-haplotypes.windows"]
    silent = sum(counts[f"{split}.holdout-haplotypes.windows_without_haplotype"] for split in ("validation", "test"))
    text = render_card(replace(info, counts=counts))
    assert (
        f"Haplotype blocks: {held} of 9 are held out (2 of all are phased); they remove {removed / came:.2%} of the "
        f"reference windows, the aim is 2.00%.{sentence} Left out are {silent} windows"
    ) in text
    assert "of one tuple, and 4 alleles that stand in no window of this holdout." in text


def test_a_card_without_shortfall(package):
    info = read_package_info(package.directory)
    counts = {name: 0 if name.endswith(".shortfall") else n for name, n in info.counts.items()}
    text = render_card(replace(info, counts=counts))
    assert "Every holdout has the 10 validation windows that were asked for" in text


@each_row(("windows", "category"), [(999, "n<1K"), (1_000, "1K<n<10K"), (99_999, "10K<n<100K"), (1_000_000, "n>1M")])
def test_size_categories(package, windows, category):
    info = read_package_info(package.directory)
    empty = {split: replace(s, windows=0) for split, s in info.splits.items()}
    sized = replace(info, splits=empty | {"train": replace(info.splits["train"], windows=windows)})
    assert front_matter(render_card(sized))["size_categories"] == [category]


def test_the_card_states_the_distance_of_every_share_from_the_specification(package):
    info = read_package_info(package.directory)
    text, planned = render_card(info), info.epoch.planned
    windows = {"eukaryote_generator": 50, "mrna_evo2": 25, "mrna_splice_evo2": 10, "prokaryote_evo2": 15}
    for name, points in windows.items():
        ours = 100 * (planned.windows.get(name, 0) + (planned.windows["reference"] if points == 50 else 0))
        assert f"| windows of `{name}` | {points}.0% | {ours:.1f}% | {round(ours - points, 1) + 0:+} |" in text
    for name, points in {"gnomad": 40, "synthetic_snv": 30, "synthetic_indel": 20, "clinvar": 10}.items():
        ours = 100 * planned.edits[name]
        assert f"| edits from `{name}` | {points}.0% | {ours:.1f}% | {round(ours - points, 1) + 0:+} |" in text


_CLOSED_BY = "What would close it, as far as alleles allow: "
_RFC = {"gnomad": 0.4, "synthetic_snv": 0.3, "synthetic_indel": 0.2, "clinvar": 0.1}
_LACKING = {"gnomad": 0.35, "synthetic_snv": 0.34, "synthetic_indel": 0.22, "clinvar": 0.09}


@each_row(
    ("wanted", "planned", "sentence"),
    [
        (
            Shares(window_shares(), EDIT_SHARES),
            Shares(window_shares(), _LACKING),
            f"{_CLOSED_BY}`packages.edits: "
            "{gnomad: 0.4, synthetic_snv: 0.3, synthetic_indel: 0.2, "
            "clinvar: 0.1}`; `packages.reference_share: 1.0`, as placed windows alone have real alleles.",
        ),
        (
            Shares(window_shares(None, 1.0), _RFC),
            Shares(window_shares(None, 1.0), _LACKING),
            f"{_CLOSED_BY}a real allele for every slot of the reference windows, or more of these (`packages.mix`).",
        ),
        (
            Shares({"reference": 1.0}, _RFC),
            Shares({"reference": 1.0}, _RFC),
            f"{_CLOSED_BY}windows of all four corpus sources and `packages.mix` without shares of its own.",
        ),
        (Shares(window_shares(), _RFC), Shares(window_shares(), _RFC), "The farthest share is 0.0 points away."),
    ],
)
def test_the_card_says_what_would_close_the_distance(package, wanted, planned, sentence):
    info = read_package_info(package.directory)
    other = replace(info, mix=replace(info.mix, wanted=wanted), epoch=replace(info.epoch, planned=planned))
    assert f"\n\n{sentence}\n\n" in render_card(other)


def test_the_card_says_how_many_alleles_the_stars_leave_out(package):
    info = read_package_info(package.directory)
    assert "min_training_stars" not in render_card(info)
    counts = {**info.counts, "alleles.clinvar.under_min_stars": 1_400, "alleles.clinvar.under_min_stars.harmful": 31}
    text = render_card(replace(info, mix=replace(info.mix, min_training_stars=2), counts=counts))
    sentence = (
        "`packages.min_training_stars: 2` leaves out 1,400 ClinVar alleles with fewer review stars, 31 of them P or LP."
    )
    assert sentence in text
