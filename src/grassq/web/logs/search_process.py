"""The search for a text or a regular expression in a log, as a process of its own.

Run as `python -I search_process.py [DESCRIPTOR]` by `search_run.py`. A regular expression of Python cannot be
interrupted, a process can be killed. Stdin has a line of JSON that says what to search for, then parts of the log: each
is a line of JSON, and the bytes of the part follow, or it says where they are in the file of the descriptor. Stdout has
lines of JSON: `ready` or `bad`, then the hits, and after every part `searched`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from grassq.core.term.scan import Block
    from grassq.web.logs.raw_search import RawText

#: Bytes of memory that a search may take; an expression that wants more is refused.
MEMORY_MAX = 1 << 30
#: Characters of a line that a hit shows, from shortly before what was found.
SHOWN_MAX, SHOWN_BEFORE = 2_000, 200

#: A line that matches: its number in a block, the line, and where it matches.
Found = tuple[int, str, int, int]
#: Finds the lines of a block that match.
Find = Callable[[str], "Iterator[Found]"]


def main() -> None:
    """Search until the log ends or the daemon is gone."""
    from grassq.web.logs import raw_search

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    os.nice(5)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    asked = json.loads(source.readline())
    is_regex = asked["regex"] and not raw_search.is_text(asked["q"])
    try:
        find = finder(asked["q"], is_regex=is_regex, ignore_case=asked["ignore_case"])
    except (re.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
        _tell(sink, {"bad": str(error) or type(error).__name__})
        return
    raw = None if is_regex else raw_search.RawText(asked["q"], _first_of(find), ignore_case=asked["ignore_case"])
    is_raw = raw is not None and raw.is_usable and len(sys.argv) > 1
    _tell(sink, {"ready": True, "is_raw": is_raw})
    hits = _Hits(asked["limit"], sink, stops=asked["stops"])
    parts = _Parts(find, raw, hits, int(sys.argv[1]) if is_raw else -1)
    while line := source.readline():
        _tell(sink, {**parts.search(json.loads(line), source), "total": hits.total})


class _Parts:
    """Searches the parts of a log."""

    def __init__(self, find: Find, raw: RawText | None, hits: _Hits, file: int) -> None:
        from grassq.core.term.screen import Screen

        self._find = find
        self._raw = raw
        self._hits = hits
        self._file = file
        self._screen = Screen()

    def search(self, part: dict[str, Any], source: BinaryIO) -> dict[str, object]:
        """Search one part; return up to which byte that was done, and the number of the line there."""
        hits = self._hits
        hits.between(part["low"], part["high"], goes_back=part["goes_back"])
        if "places" in part:
            answer = self._known(part["places"], part["end"])
        elif "line" in part:
            answer = self._unknown(part["begin"], part["line"], part["end"])
        else:
            answer = self._bytes(part, _exactly(source, part["size"]))
        if "stuck" in answer and part["goes_back"]:
            hits.drop()
        elif part["is_whole"]:
            hits.flush()
        return answer

    def _bytes(self, part: dict[str, Any], data: bytes) -> dict[str, object]:
        """Fold bytes and search their lines."""
        from grassq.core.term.scan import Block, scan
        from grassq.core.term.screen import Screen

        if "state" in part:
            state = base64.b64decode(part["state"])
            self._screen = Screen.restore(state) if state else Screen(offset=part["begin"], number=part["number"])
        screen = self._screen
        screen.offset = part["begin"]
        self._look(scan(screen, data))
        if part["finish"]:
            self._look([Block(line.number, line.text) for line in screen.finish()])
        return {"searched": screen.offset, "line": screen.first}

    def _look(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self._hits.take(block.number, self._find(block.text))

    def _known(self, places: list[list[int]], end: int) -> dict[str, object]:
        """Search lines that are known to be plain; the places are in the file, each with its line."""
        from grassq.web.logs.raw_search import PIECE

        at = 0
        while at < len(places) and not self._hits.is_over:
            begin, line = places[at]
            at += 1
            while at < len(places) and places[at][0] - begin < PIECE:
                at += 1
            stop = places[at][0] if at < len(places) else end
            data = _pread(self._file, stop - begin, begin)
            if len(data) < stop - begin:
                return {"searched": begin, "line": line, "shrank": True}
            if not self._lines(data, line):
                return {"searched": begin, "line": line, "stuck": True}
        return {"searched": end if at == len(places) else places[at][0], "line": 0}

    def _unknown(self, begin: int, line: int, end: int) -> dict[str, object]:
        """Search lines while they are plain."""
        from grassq.web.logs.raw_search import LINE_MAX, PIECE, whole_lines

        size = PIECE
        while begin < end and not self._hits.is_over:
            data = _pread(self._file, size, begin)
            lines = whole_lines(data)
            if not lines and len(data) == size < LINE_MAX:
                size *= 2
                continue
            if not lines or not self._lines(data[:lines], line):
                return {"searched": begin, "line": line, "stuck": True}
            begin, line, size = begin + lines, line + data.count(b"\n", 0, lines), PIECE
        return {"searched": begin, "line": line}

    def _lines(self, data: bytes, first: int) -> bool:
        """Search whole plain lines; return False if that is not possible in bytes."""
        assert self._raw is not None
        found = self._raw.lines(data)
        if found is not None:
            self._hits.take(first, found)
            self._hits.pause()
        return found is not None


def finder(query: str, *, is_regex: bool, ignore_case: bool) -> Find:
    """Return what finds matching lines; raise re.error if the expression does not compile."""
    if not is_regex and not ignore_case:
        return lambda text: _literal(text, query)
    expression = re.compile(query if is_regex else re.escape(query), re.IGNORECASE if ignore_case else 0)
    # Many lines at once have no hit; only where case is plain can they be looked at together.
    small = query.lower() if not is_regex and query.isascii() else ""

    def matching(text: str) -> Iterator[Found]:
        if small and text.isascii():
            yield from _literal(text.lower(), small, shown=text)
            return
        for at, line in enumerate(text.split("\n")):
            if found := expression.search(line):
                yield at, line, found.start(), found.end()

    return matching


def _literal(text: str, query: str, shown: str | None = None) -> Iterator[Found]:
    """Yield the lines of a text that have a query; `shown` is the text as it is told, if it is another."""
    shown = text if shown is None else shown
    at = number = counted = 0
    while (at := text.find(query, at)) >= 0:
        number += text.count("\n", counted, at)
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield number, shown[begin:end], at - begin, at - begin + len(query)
        counted, at = at, end
        if at >= len(text):
            return


def _first_of(find: Find) -> Callable[[str], tuple[int, int] | None]:
    def first(line: str) -> tuple[int, int] | None:
        found = next(find(line), None)
        return None if found is None else found[2:]

    return first


class _Hits:
    """Counts the lines that match, and tells the first ones."""

    def __init__(self, limit: int, sink: BinaryIO, *, stops: bool) -> None:
        self._limit = limit
        self._sink = sink
        self._stops = stops
        self._low = self._high = 0
        self._goes_back = False
        #: Hits of a search backwards that are not told yet.
        self._held: deque[dict[str, object]] = deque()
        self._told = self._before = 0
        self.total = 0

    @property
    def is_over(self) -> bool:
        """Whether no more hits are wanted. A search backwards wants the last ones of a part, so it reads all of it."""
        return self._stops and not self._goes_back and self._told >= self._limit

    def between(self, low: int, high: int, *, goes_back: bool) -> None:
        """Take only lines from number `low` on and below `high` from now on."""
        self._low, self._high, self._goes_back, self._before = low, high, goes_back, self.total

    def take(self, first: int, found: Iterator[Found]) -> None:
        """Take lines that match; they are counted from line `first` on."""
        for at, line, begin, end in found:
            number = first + at
            if not self._low <= number < self._high:
                continue
            self.total += 1
            if self._told >= self._limit:
                continue
            cut = max(0, begin - SHOWN_BEFORE) if len(line) > SHOWN_MAX else 0
            shown = line[cut : cut + SHOWN_MAX]
            hit: dict[str, object] = {"n": number, "text": shown, "at": [begin - cut, min(end - cut, len(shown))]}
            if len(shown) < len(line):
                hit["left_out"] = len(line) - len(shown)
            if not self._goes_back:
                self._tell(hit)
                if self.is_over:
                    return
                continue
            self._held.append(hit)
            if len(self._held) > self._limit - self._told:
                self._held.popleft()

    def flush(self) -> None:
        """Tell the hits of a search backwards, the nearest first."""
        while self._held:
            self._tell(self._held.pop())

    def drop(self) -> None:
        """Forget the hits of this part: it is searched in another way."""
        self._held.clear()
        self.total = self._before

    def pause(self) -> None:
        """Tell what was found so far, and that the search goes on."""
        _tell(self._sink, {"goes_on": True})

    def _tell(self, hit: dict[str, object]) -> None:
        self._told += 1
        _write(self._sink, hit)


def _pread(file: int, size: int, begin: int) -> bytes:
    data = os.pread(file, size, begin)
    while len(data) < size and (more := os.pread(file, size - len(data), begin + len(data))):
        data += more
    return data


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise SystemExit  # the daemon is gone
    return data


def _tell(sink: BinaryIO, message: dict[str, Any]) -> None:
    _write(sink, message)
    sink.flush()


def _write(sink: BinaryIO, message: dict[str, Any]) -> None:
    try:
        sink.write(json.dumps(message).encode("ascii") + b"\n")
    except BrokenPipeError:
        raise SystemExit from None


if __name__ == "__main__":
    # -I leaves the folder of this file out of the path. Our folder goes last, so that nothing in it can replace a
    # module of the standard library.
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    main()
