from __future__ import annotations

from genolewm_assets.progress import NO_PROGRESS, ByteCount


class Listener:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None, str]] = []

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.seen.append((done, total, unit))


def test_bytes_add_up_over_several_readers() -> None:
    listener = Listener()
    count = ByteCount(listener, 10)
    for size_bytes in (3, 0, 7):
        count.add(size_bytes)
    assert listener.seen == [(done, 10, "bytes hashed") for done in (3, 3, 10)]


def test_readers_that_are_found_later_add_to_the_total() -> None:
    listener = Listener()
    count = ByteCount(listener, 10)
    count.add(10)
    count.expect(5)
    count.add(5)
    assert listener.seen == [(10, 10, "bytes hashed"), (15, 15, "bytes hashed")]


def test_the_silent_listener_accepts_an_unknown_total() -> None:
    NO_PROGRESS.advance(1, None, "rows")
