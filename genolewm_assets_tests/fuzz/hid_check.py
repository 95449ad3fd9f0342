"""The reader of instrument files on any bytes: a consistent run, or an error of the package."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from genolewm_assets.errors import AbifError, SizingError
from genolewm_assets.forensic.abif import HidFile, read_hid
from genolewm_assets.forensic.sizing import size_run
from genolewm_assets_tests.referees.plain_abif import header_entries
from genolewm_assets_tests.worlds.forensic.abif_files import TagBytes, c_string, write_abif
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE, run_bytes, run_tags, traces

_FOLDER = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
_LONGEST_TEXT = 255
_FRAGMENTS = 8
#: What mutation alone seldom writes: names, types and numbers of tags, and texts that are taken apart.
WORDS = [
    word.encode("latin-1")
    for word in (
        "ABIF",
        "tdir\0\0\0\1\x03\xff\0\x1c",
        *(f"DATA\0\0\0{chr(number)}\0\4\0\2" for number in (1, 2, 9, 105, 205)),
        *(f"DATA\0\0\0\1\0{chr(kind)}\0\2" for kind in range(28, 35)),
        *("Dye#\0\0\0\1", "DyeN\0\0\0\1", "SMap\0\0\0\2", "ScPa\0\0\0\1", "AsyC\0\0\0\1", "Satd\0\0\0\1"),
        'name="Dyes">[6-FAM;522;1,LIZ;655;5]',
        "SizeStandardPeaks=60,80,100,120,140,160;SizeStandardDyeIndex=2",
        *("\x7f\xff\xff\xff", "\xff\xff\xff\xff", "\x80\0\0\0"),
    )
]


def hid_seeds() -> Iterator[bytes]:
    """Yield inputs of :func:`check_hid`: runs with a plain and with a scrambled directory."""
    signal = traces(GENOTYPE)
    for scrambled in (False, True):
        yield run_bytes(signal[:, 1_500:1_540], scrambled=scrambled)
        yield run_bytes(signal[:3, 1_600:1_700], scrambled=scrambled)
        yield write_abif(_sized_tags(), scrambled=scrambled, version=300)


def _sized_tags() -> list[TagBytes]:
    """Return the tags of two short traces, the second with a size standard of eight fragments."""
    signal = np.zeros((2, 15 * _FRAGMENTS + 20))
    for number in range(_FRAGMENTS):
        signal[1, 15 * number + 8 : 15 * number + 15] = (100, 200, 600, 900, 600, 200, 100)
    sizes = ",".join(str(20 * number) for number in range(1, _FRAGMENTS + 1))
    settings = f"SizeStandardPeaks={sizes};SizeStandardDyeIndex=2;"
    return [*run_tags(signal), c_string("ScPa", 1, settings)]


def check_hid(data: bytes) -> None:
    """Read an input as an instrument file, look at every tag, and size it."""
    with tempfile.NamedTemporaryFile(dir=_FOLDER, suffix=".hid") as file:
        file.write(data)
        file.flush()
        try:
            run = read_hid(file.name)
        except AbifError as err:
            _check_message(err)
            return
        _check_traces(run, Path(file.name))
    _check_facts(run)
    for key in run.tags:
        try:
            run.tags[key]
        except AbifError as err:
            _check_message(err)
    try:
        sizing = size_run(run)
    except SizingError as err:
        _check_message(err)
        return
    assert sizing.scaler.shape == (run.n_scans,)
    assert np.isfinite(sizing.scaler).all()
    assert (np.diff(sizing.scaler) >= 0).all()
    assert set(sizing.sizes_bp.tolist()) <= set(sizing.standard.sizes_bp)


def _check_message(err: Exception) -> None:
    assert "\n" not in str(err), f"an error of several lines: {err}"


def _check_traces(run: HidFile, path: Path) -> None:
    """Compare traces with the bytes that the header's directory names, where they are not scrambled."""
    data, entries = header_entries(path)
    plain = {entry.number: entry for entry in entries if (entry.name, entry.kind) == ("DATA", 4)}
    for dye in run.dyes:
        assert dye.raw.shape == (run.n_scans,)
        assert dye.raw.dtype == np.int16
        assert not dye.raw.flags.writeable
        assert dye.analysed is None or dye.analysed.shape == dye.raw.shape
        number = dye.channel if dye.channel <= 4 else 100 + dye.channel
        same = [entry for entry in entries if (entry.name, entry.number) == ("DATA", number)]
        if number in plain and len(same) == 1:
            assert dye.raw.astype(">i2").tobytes() == plain[number].stored(data)


def _check_facts(run: HidFile) -> None:
    assert [dye.channel for dye in run.dyes] == list(range(1, len(run.dyes) + 1))
    assert run.off_scale.tolist() == sorted(set(run.off_scale.tolist()))
    assert all(0 <= scan < run.n_scans for scan in run.off_scale.tolist())
    facts = run.run
    texts = [facts.sample, facts.instrument, facts.model, facts.serial, facts.software, facts.polymer, facts.well]
    assert all(len(text) <= _LONGEST_TEXT for text in [*texts, facts.injection, facts.size_standard])
    assert 1 <= facts.size_standard_channel <= len(run.dyes)
    assert list(facts.size_standard_sizes_bp) == sorted(set(facts.size_standard_sizes_bp))
    assert repr(run).count("\n") == 0
