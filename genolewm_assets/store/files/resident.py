"""Pages of mapped files that a process keeps resident: looked at now and then, and given back when there are many.

A page that was read through a map stays in the process until memory is short, and the size of a process that reads at
random becomes that of its files. Given back, a page stays in the page cache of the system, and reading it again takes
a page fault. Not here: who maps what (``store.arrays``, ``lewm.mapped``).
"""

from __future__ import annotations

import mmap
import os
import weakref
from pathlib import Path
from typing import ClassVar, Final

from genolewm_assets.errors import ConfigurationError

#: Setting: bytes of files, libraries among them, that a process may have resident before it gives pages back.
SETTING: Final = "GENOLEWM_RESIDENT_BYTES"
#: Its default: with memory of its own, a trainer's process stays below 600 MB.
LIMIT_BYTES: Final = 344 << 20
#: What maps may have in any case, however large the libraries are.
LEAST_BYTES: Final = 96 << 20
#: Bytes that may have become resident before the process looks how many there really are.
_UNSEEN_BYTES: Final = 16 << 20
#: What a page fault makes resident (``fault_around_bytes`` of Linux).
_FAULT_BYTES: Final = 64 << 10
_STATM: Final = Path("/proc/self/statm")


class _Maps:
    """What is known of this process; a forked one begins with what its parent knew.

    Attributes
    ----------
    in_use
        Maps, and whether what was read of them is read again soon.
    limit_bytes
        What may be resident, as set.
    other_bytes
        What was resident without the maps, as far as it was seen.
    unseen_bytes
        Bytes read since the process last looked.
    """

    in_use: ClassVar[weakref.WeakKeyDictionary[mmap.mmap, bool]] = weakref.WeakKeyDictionary()
    limit_bytes = LIMIT_BYTES
    other_bytes = 0
    unseen_bytes = 0


def limit_resident(mapped: mmap.mmap, *, again: bool) -> None:
    """Let :func:`count_read` give back the pages of a map, as long as it is in use.

    Parameters
    ----------
    mapped
        The map.
    again
        Whether what was read is read again soon: pages of other maps are given back before.

    Raises
    ------
    ConfigurationError
        If ``GENOLEWM_RESIDENT_BYTES`` is no number.
    """
    if not _Maps.in_use:
        _Maps.limit_bytes, _Maps.other_bytes = _set_limit(), _resident_bytes()
    _Maps.in_use[mapped] = again


def count_read(n_bytes: int, n_places: int) -> None:
    """Count bytes that are read at some places of maps, and give pages back when too many are resident.

    The maps are those of :func:`limit_resident`. Arrays stay valid: reading them makes their pages resident again. A
    system without ``/proc`` does not say how much is resident: nothing is given back there.
    """
    _Maps.unseen_bytes += n_bytes + n_places * _FAULT_BYTES
    if _Maps.unseen_bytes < _UNSEEN_BYTES:
        return
    _Maps.unseen_bytes = 0
    resident = _resident_bytes()
    _Maps.other_bytes = min(resident, _Maps.other_bytes)
    limit = max(_Maps.limit_bytes, _Maps.other_bytes + LEAST_BYTES)
    if resident > limit:
        _give_back(enough_bytes=limit - (limit - _Maps.other_bytes) // 4)


def _give_back(enough_bytes: int) -> None:
    """Give back the pages of map after map, until no more than some bytes are resident.

    Maps that are not read again soon are the first. Of the others the largest are: their pages are read least often.
    """
    # A list of references: another thread may map a file meanwhile.
    maps = [mapped for known in _Maps.in_use.keyrefs() if (mapped := known()) is not None]
    resident = 0
    for mapped in sorted(maps, key=lambda mapped: (_Maps.in_use[mapped], -len(mapped))):
        mapped.madvise(mmap.MADV_DONTNEED)
        resident = _resident_bytes()
        if resident <= enough_bytes:
            return
    _Maps.other_bytes = resident


def _set_limit() -> int:
    text = os.environ.get(SETTING) or str(LIMIT_BYTES)
    if not (text.isascii() and text.isdecimal()):
        raise ConfigurationError(SETTING, "not a size", expected="bytes, such as 360710144", got=repr(text))
    return int(text)


def _resident_bytes() -> int:
    """Return the resident bytes of this process that files and shared memory have; 0 if the system does not say it."""
    try:
        # Opened anew: a descriptor from before a fork would tell of the parent.
        return int(_STATM.read_bytes().split()[2]) * mmap.PAGESIZE
    except OSError:
        return 0
