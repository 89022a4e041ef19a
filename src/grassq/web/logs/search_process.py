"""The search for a text or a regular expression in a log, as a process of its own.

Run as `python -I search_process.py` by `search.py`. A regular expression of Python cannot be interrupted, a process can
be killed. Stdin has a line of JSON that says what to search for, then pieces of the log: four bytes with the length of
the piece, and the piece; a length of 0 ends the log. Stdout has lines of JSON: `ready` or `bad`, then the hits, and
after every piece `searched`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from grassq.core.term.scan import Block

#: Bytes of memory that a search may take; an expression that wants more is refused.
MEMORY_MAX = 1 << 30
#: Characters of a line that a hit shows, from shortly before what was found.
SHOWN_MAX, SHOWN_BEFORE = 2_000, 200
_SIZE = struct.Struct("<I")

#: Finds the lines of a block that match: the number of the line in the block, the line, and where it matches.
Find = Callable[[str], "Iterator[tuple[int, str, int, int]]"]


def main() -> None:
    """Search until the log ends or the daemon is gone."""
    from grassq.core.term.scan import Block, scan
    from grassq.core.term.screen import Screen

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    os.nice(5)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    asked = json.loads(source.readline())
    try:
        find = finder(asked["q"], is_regex=asked["regex"], ignore_case=asked["ignore_case"])
        state = base64.b64decode(asked["state"])
        screen = Screen.restore(state) if state else Screen()
    except (re.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
        _tell(sink, {"bad": str(error) or type(error).__name__})
        return
    _tell(sink, {"ready": True})
    hits = _Hits(asked["after"], asked["limit"])
    while piece := _piece(source):
        hits.look(scan(screen, piece), find, sink)
        _tell(sink, {"searched": screen.offset, "total": hits.total, "line": screen.first})
    hits.look([Block(line.number, line.text) for line in screen.finish()], find, sink)
    _tell(sink, {"searched": screen.offset, "total": hits.total, "line": screen.first})


def finder(query: str, *, is_regex: bool, ignore_case: bool) -> Find:
    """Return what finds matching lines; raise re.error if the expression does not compile."""
    if not is_regex and not ignore_case:
        return lambda text: _literal(text, query)
    expression = re.compile(query if is_regex else re.escape(query), re.IGNORECASE if ignore_case else 0)

    def matching(text: str) -> Iterator[tuple[int, str, int, int]]:
        for at, line in enumerate(text.split("\n")):
            if found := expression.search(line):
                yield at, line, found.start(), found.end()

    return matching


def _literal(text: str, query: str) -> Iterator[tuple[int, str, int, int]]:
    at = number = counted = 0
    while (at := text.find(query, at)) >= 0:
        number += text.count("\n", counted, at)
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield number, text[begin:end], at - begin, at - begin + len(query)
        counted, at = at, end
        if at >= len(text):
            return


class _Hits:
    """Counts the lines that match, and tells the first ones."""

    def __init__(self, after: int, limit: int) -> None:
        self._after = after
        self._limit = limit
        self.total = 0

    def look(self, blocks: Iterable[Block], find: Find, sink: BinaryIO) -> None:
        """Tell the matching lines of blocks."""
        for block in blocks:
            for at, line, begin, end in find(block.text):
                number = block.number + at
                if number <= self._after:
                    continue
                self.total += 1
                if self.total > self._limit:
                    continue
                cut = max(0, begin - SHOWN_BEFORE) if len(line) > SHOWN_MAX else 0
                shown = line[cut : cut + SHOWN_MAX]
                hit = {"n": number, "text": shown, "at": [begin - cut, min(end - cut, len(shown))]}
                _write(sink, hit if len(shown) == len(line) else {**hit, "left_out": len(line) - len(shown)})


def _piece(source: BinaryIO) -> bytes:
    head = source.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise SystemExit  # the daemon is gone
    size = _SIZE.unpack(head)[0]
    data = source.read(size)
    if len(data) < size:
        raise SystemExit
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
