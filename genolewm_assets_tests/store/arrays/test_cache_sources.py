"""What a cache was made from: changed before, during or after the build."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.store import ArrayStoreReader, cache_key_dir, compute_fingerprint, read_stamped
from genolewm_assets.store.arrays.keys import validate_sources
from genolewm_assets.store.arrays.stamps import RowStamp, SourceChangedError, read_stamps
from genolewm_assets_tests.worlds.store.array_caches import (
    CONFIG,
    KEY,
    N_ROWS,
    OLD_NS,
    PANEL,
    arrays_of,
    build_cache,
    expected_rows,
    leftovers,
    open_cache,
    rows_of,
    write_rows,
    write_source,
    write_sources,
)


@pytest.mark.parametrize("name", ["samples/3.hid", PANEL])
def test_a_source_that_changed_since_its_row_was_committed_starts_the_build_anew(
    cache_dir: Path, files: dict[str, Path], name: str
) -> None:
    writer = open_cache(cache_dir, files)
    write_rows(writer, files, 5)
    writer.close()
    write_source(files[name], "another content")
    with open_cache(cache_dir, files) as again:
        assert again.resume_keys() == []
        assert len(write_rows(again, files)) == N_ROWS
        assert rows_of(again.finalize(again.fingerprint())) == expected_rows(files)


def test_a_source_that_changed_after_its_row_was_lost_is_no_matter(cache_dir: Path, files: dict[str, Path]) -> None:
    writer = open_cache(cache_dir, files)
    write_rows(writer, files, 7)
    writer.close()
    write_source(files["samples/5.hid"], "another content")
    with open_cache(cache_dir, files) as again:
        assert again.n_rows == 4
        write_rows(again, files)
        assert rows_of(again.finalize(again.fingerprint())) == expected_rows(files)


def test_other_bytes_under_the_old_size_and_time_are_found_when_strict(cache_dir: Path, files: dict[str, Path]) -> None:
    writer = open_cache(cache_dir, files)
    write_rows(writer, files, 5)
    writer.close()
    write_source(files["samples/3.hid"], "SAMPLES/3.hid version 1", OLD_NS + 1)
    for strict, kept in ((False, 4), (True, 0)):
        with open_cache(cache_dir, files, strict=strict) as again:
            assert again.n_rows == kept


@pytest.mark.parametrize("name", ["samples/3.hid", PANEL])
def test_a_source_that_changes_during_the_build_is_noticed_at_the_end(
    cache_dir: Path, files: dict[str, Path], name: str
) -> None:
    old = build_cache(cache_dir, write_sources(cache_dir.parent / "data", 0))
    write_sources(cache_dir.parent / "data", 1)
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files)
        write_source(files[name], "another content")
        with pytest.raises(SourceChangedError, match=rf"sources changed since rows .*'{name}' changed; 1 in all"):
            writer.finalize(writer.fingerprint())
    assert leftovers(cache_dir) == []
    assert cache_key_dir(cache_dir, KEY).resolve() == old
    assert rows_of(build_cache(cache_dir, files)) == expected_rows(files)


def test_rows_of_two_panels_never_stand_in_one_cache(cache_dir: Path, files: dict[str, Path]) -> None:
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files, 2)
        write_source(files[PANEL], "another panel")
        with pytest.raises(SourceChangedError, match=r"panel\.xml: was changed since rows were made from it"):
            write_rows(writer, files)


@pytest.mark.parametrize("when_read", [True, False], ids=["stamped when read", "stamped at the end"])
def test_files_that_gave_no_row_count_too(cache_dir: Path, files: dict[str, Path], when_read: bool) -> None:
    dropped = cache_dir.parent / "data" / "dropped.hid"
    write_source(dropped, "no annotation")
    more = {**files, "dropped.hid": dropped}
    with open_cache(cache_dir, more) as writer:
        if when_read:
            writer.add_stamps({"dropped.hid": read_stamped(dropped)[1]})
        write_rows(writer, files)
        generation = writer.finalize(writer.fingerprint())
    assert set(read_stamps(generation)) == set(more)
    write_source(dropped, "annotated after all")
    assert not validate_sources(generation, CONFIG, more)


def test_a_finished_store_that_was_not_published_goes_stale_as_well(
    cache_dir: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr("genolewm_assets.store.artefacts.location.publish_generation", refuse)
        build_cache(cache_dir, files)
    with open_cache(cache_dir, files) as writer:
        assert writer.n_rows == N_ROWS
        write_source(files[PANEL], "another panel")
        with pytest.raises(SourceChangedError, match=r"'panel\.xml' changed"):
            writer.finalize(writer.fingerprint())
    with open_cache(cache_dir, files) as writer:
        assert writer.n_rows == 0


def test_rows_without_files_are_as_current_as_their_maker_says(cache_dir: Path) -> None:
    fingerprint = compute_fingerprint(CONFIG, {"windows/index[chr21]": "a" * 64})
    with open_cache(cache_dir, None) as writer:
        writer.write_batch({"data": np.zeros((2, 2, 16), np.uint8), "scaler": np.zeros(2, np.float32)}, keys=["a", "b"])
        with pytest.raises(ConfigurationError, match="no files were declared"):
            writer.fingerprint()
        with pytest.raises(ConfigurationError, match="stamps of files that were not declared"):
            writer.add_stamps({"a": RowStamp("a" * 64, 0, None)})
        generation = writer.finalize(fingerprint)
    assert not (generation / "stamps.json").exists()
    assert ArrayStoreReader(cache_key_dir(cache_dir, KEY)).fingerprint == fingerprint


def test_names_of_files_stay_inside_the_root(cache_dir: Path, files: dict[str, Path]) -> None:
    with pytest.raises(ConfigurationError, match="expected a name relative to the root"):
        open_cache(cache_dir, {"../a.hid": files[PANEL]})
    assert not cache_dir.exists()
    with open_cache(cache_dir, files) as writer, pytest.raises(ConfigurationError, match=r"got \['b\.hid'\]"):
        writer.write(arrays_of(b"", b""), key="b", stamps={"b.hid": RowStamp("a" * 64, 0, None)})
