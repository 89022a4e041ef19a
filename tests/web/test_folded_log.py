"""The end of a log as pages are sent it: whatever a program writes, and whichever states a page misses."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grassq.core.term.screen import Screen
from grassq.web.live.folded_log import FoldedLog, ShownLine, difference
from grassq.web.live.messages import LINES_MAX
from grassq.web.logs.lines import line_document

WORDS = [
    *(b"step 12", b"loss=0.5", "käse 👍".encode(), b"\n", b"\n", b"\n\n\n", b"\r", b"\r\n", b"\t", b"\x08"),
    *(b"\x1b[31m", b"\x1b[0m", b"\x1b[A", b"\x1b[2A", b"\x1b[K", b"\x1b[2K", b"\x1b[B", b"\x1b[2J", b"\x1b[H"),
    *(b"\x1b[5;3H", b"\x1b7", b"\x1b8", b"\x1bM", b"\x1b]0;title\x07", b"\xff\xfe", b"x" * 300, b"line\n" * 150),
]


def whole(data: bytes) -> list[dict[str, Any]]:
    """The lines as a terminal shows them that reads all at once."""
    screen = Screen()
    lines = [*screen.feed(data), *screen.lines()]
    return [json.loads(json.dumps(line_document(line))) for line in lines][-LINES_MAX:]


def seen(line: dict[str, Any]) -> dict[str, Any]:
    """A line without its end: whether a return before a newline counts depends on where the bytes are cut."""
    return {name: value for name, value in line.items() if name != "end"}


class Shown:
    """What a page shows: it does what docs/reference/live.md says."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.lines: list[dict[str, Any]] = []

    def take(self, lines: list[ShownLine], first: int | None) -> None:
        if first is None:
            self.lines = []
        else:
            self.lines = [line for line in self.lines if line["begin"] < first]
        self.lines = (self.lines + [json.loads(line.raw) for line in lines])[-self.most :]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(b"".join), max_size=12),
    st.integers(1, LINES_MAX),
    st.data(),
)
def test_a_page_shows_what_a_terminal_shows_after_every_state(
    pieces: list[bytes], most: int, data: st.DataObject
) -> None:
    folded, page = FoldedLog(), Shown(most)
    before: list[ShownLine] = []
    written = b""
    for piece in pieces:
        # A piece is cut anywhere, also within a character or a sequence.
        cut = data.draw(st.integers(0, len(piece)))
        for part in (piece[:cut], piece[cut:]):
            folded.take(part)
            written += part
        after = folded.lines()
        found = difference(before, after, is_full=folded.is_full)
        if found is None or data.draw(st.booleans(), "the page missed the state before"):
            page.take(after[-most:], None)
        else:
            # As a view sends it: never more than the page shows, and only what differs.
            page.take(after[max(found.same, len(after) - most) :], found.first)
        before = after
        assert [seen(line) for line in page.lines] == [seen(line) for line in whole(written)[-most:]]
        assert folded.total == len(whole(written)) or folded.total is None or folded.total >= LINES_MAX


def test_of_a_large_piece_the_last_lines_are_folded_and_all_are_counted() -> None:
    folded = FoldedLog()
    folded.take(b"before\n")
    written = b"".join(b"line %d\n" % at for at in range(100_000)) + b"the end"
    folded.take(written)
    lines = [json.loads(line.raw) for line in folded.lines()]
    assert len(lines) == LINES_MAX and folded.total == 100_002
    assert [line["n"] for line in lines] == [*range(100_003 - LINES_MAX, 100_003)]
    assert lines[-1]["spans"] == [["", "the end"]] and lines[-2]["spans"] == [["", "line 99999"]]
    assert folded.offset == len(written) + 7
