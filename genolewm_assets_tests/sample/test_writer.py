from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.sample import write_sample, writer
from genolewm_assets.sample.facts import CONTENT_MD5
from genolewm_assets.store.artefacts.build import BuildRejectedError
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root


class _Steps:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None]] = []

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.seen.append((done, total))


def _bytes(folder: Path) -> dict[str, bytes]:
    files = [f for f in sorted(folder.resolve().rglob("*")) if f.is_file() and f.name != "provenance.json"]
    return {str(f.relative_to(folder.resolve())): f.read_bytes() for f in files}


def test_a_second_call_reuses_the_files(sample_root: Path) -> None:
    before = (sample_root / "sample/files").readlink()
    steps = _Steps()
    assert write_sample(sample_root, progress=steps).reused
    assert ((sample_root / "sample/files").readlink(), steps.seen) == (before, [])


def test_files_are_small_and_each_has_its_checksum_beside(sample_dir: Path) -> None:
    sizes = {name: len(data) for name, data in _bytes(sample_dir).items()}
    assert sum(sizes.values()) < 40e6
    assert 0 < sum(size for name, size in sizes.items() if name.startswith("corpus/")) < 6e6
    # Not beside Parquet: a folder of it is read whole. Not in a run folder, where no instrument writes them.
    compressed = {name for name in CONTENT_MD5 if not name.endswith(".parquet") and not name.startswith("forensic/")}
    assert set(sizes) == {*CONTENT_MD5, *(f"{name}.md5" for name in compressed), "manifest.json"}


def test_the_store_finds_nothing_wrong(sample_root: Path) -> None:
    assert open_input(Root(sample_root), ArtefactId("sample/sources"), "sample/files").manifest.failed_checks == ()


def test_the_listing_keeps_what_is_put_there_and_gets_back_what_it_lacks(sample_root: Path, sample_dir: Path) -> None:
    listing = sample_root / "sample/clinvar"
    wanted = {file.name: file.read_bytes() for file in (sample_dir / "releases").iterdir()}
    assert {file.name: file.read_bytes() for file in listing.iterdir()} == wanted
    dropped, removed = listing / "clinvar_20250302.vcf.gz", listing / "clinvar_20240107.vcf.gz"
    dropped.write_bytes(b"anything")
    removed.unlink()
    try:
        assert write_sample(sample_root).reused
        assert {file.name: file.read_bytes() for file in listing.iterdir()} == {**wanted, dropped.name: b"anything"}
    finally:
        dropped.unlink()


def test_a_root_of_the_older_layout_gets_the_new_one(tmp_path: Path, sample_dir: Path) -> None:
    older = tmp_path / ".gen/sample.000000000000"
    older.mkdir(parents=True)
    (tmp_path / "sample").symlink_to(".gen/sample.000000000000")
    write_sample(tmp_path)
    assert not any(older.iterdir())
    assert _bytes(tmp_path / "sample/files") == _bytes(sample_dir)
    assert len(list((tmp_path / "sample/clinvar").glob("*.vcf.gz"))) == 2
    (tmp_path / "sample/clinvar/clinvar_20250302.vcf.gz").write_bytes(b"anything")
    Root(tmp_path).claim("sample", "a" * 64)
    older.rmdir()
    assert not list(verify_root(Root(tmp_path)))


@pytest.mark.slow
def test_another_process_writes_the_same_bytes_and_a_damaged_file_is_replaced(tmp_path: Path, sample_dir: Path) -> None:
    code = "import sys; from pathlib import Path; from genolewm_assets.sample import write_sample;"
    code += "write_sample(Path(sys.argv[1]))"
    first, second = (
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    )
    assert (first.wait(120), second.wait(120)) == (0, 0)
    wanted = _bytes(sample_dir)
    assert _bytes(tmp_path / "sample/files") == wanted
    damaged = tmp_path / "sample" / "gnomad" / "gnomad.joint.v4.1.sites.chr17.vcf.bgz"
    data = bytearray(damaged.read_bytes())
    data[1_000] ^= 1
    damaged.write_bytes(bytes(data))
    steps = _Steps()
    assert not write_sample(tmp_path, progress=steps).reused
    assert steps.seen == [(n, 32) for n in range(1, 33)]
    assert _bytes(tmp_path / "sample/files") == wanted


def test_contents_other_than_the_pinned_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_sources", lambda: iter([("reference.fa.gz", b">chr17\nACGT\n")]))
    with pytest.raises(BuildRejectedError) as caught:
        write_sample(tmp_path)
    (check,) = caught.value.checks
    assert (check.name, check.passed) == ("contents_match_pins", False)
    assert set(check.figures) == {"reference.fa.gz"}
    assert not (tmp_path / "sample/files").exists()
