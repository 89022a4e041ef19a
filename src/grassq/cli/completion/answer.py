"""`grass __complete WORD...`: prints what can come in place of the last word, for the scripts in `shells/`.

The first line says what the shell does, and how many characters of the last word stay: `words 0`, `files 6`,
`folders 0`, or `command 3`: the third word after `grass` begins a command line of its own. Each further line has a
word, a tab and a description.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread

from grassq import home as homes
from grassq.cli.completion.grammar import Expected, expected
from grassq.descriptors import write_all
from grassq.errors import GrassError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.cli.completion.grammar import Row
    from grassq.net.http import Target

TABLE = os.path.dirname(os.path.abspath(__file__)) + "/table.tsv"
#: How long this machine's daemon, and a broker elsewhere, may take; then the words of the table alone are offered.
LOCAL_S, BROKER_S = 0.2, 0.6
#: What is printed at most, whatever the daemon answers.
ROWS_MAX = 1000
WORD_CHARS, DESCRIPTION_CHARS = 128, 80
#: Besides letters and digits. No shell reads these as anything but themselves in the middle of a word.
PLAIN = frozenset("-_.,:=/@~+%")
UNSAFE_FIRST = frozenset("~=")


def answer(words: list[str]) -> int:
    """Print what can come in place of the last word; never fail, never wait long, and say nothing else."""
    try:
        with open(TABLE, encoding="utf-8") as file:
            table = file.read()
        found = expected(words or [""], table, _is_queue)
        rows = found.rows + (_asked(found) if found.kinds else [])
        write_all(1, _text(found, rows).encode("utf-8", "replace"))
    except (OSError, GrassError):
        pass  # an installation without its table, a reader that is gone: TAB offers nothing
    # At once: a request that is still under way must not keep the shell waiting.
    os._exit(0)


def _text(found: Expected, rows: list[Row]) -> str:
    where = found.place + 1 if found.action == "command" else found.kept
    lines, seen = [f"{found.action} {where}"], set()
    for word, about in rows:
        if len(lines) <= ROWS_MAX and word.startswith(found.prefix) and word not in seen and _is_plain(word):
            seen.add(word)
            lines.append(f"{word}\t{_described(about)}")
    return "\n".join(lines) + "\n"


def _is_plain(word: str) -> bool:
    """Tell whether a shell takes a word as it is: names come from other people's jobs."""
    is_short = 0 < len(word) <= WORD_CHARS and word[0] not in UNSAFE_FIRST
    return is_short and all(char.isalnum() or char in PLAIN for char in word)


def _described(text: str) -> str:
    """Return a description on one line, without a character that moves the cursor or ends a column."""
    return "".join([char if char.isprintable() else "?" for char in text[:DESCRIPTION_CHARS]])


def _asked(found: Expected) -> list[Row]:
    rows = _ask(found.kinds, found.prefix if not found.as_options else "", found.states, found.broker)
    if not found.as_options:
        return rows
    return [(f"--{word}=", f"an amount of {word}") for word, _ in rows if f"--{word}=" not in dict(found.rows)]


def _is_queue(word: str) -> bool:
    return any(name == word for name, _ in _ask(("queue",), word, (), None))


def _ask(kinds: tuple[str, ...], prefix: str, states: tuple[str, ...], typed: str | None) -> list[Row]:
    """Ask the daemon or the broker; nothing if there is none, or none that answers in time."""
    try:
        home = homes.current()
        broker = homes.broker(home, typed)
    except GrassError:
        return []  # no home that can be used; a command says why, TAB does not
    rows: list[Row] = []
    done = allocate_lock()
    done.acquire()

    def ask() -> None:
        # In a thread: also a name server that does not answer cannot hold the shell up.
        try:
            rows.extend(_rows(_request(home, broker, kinds, prefix, states)))
        except (GrassError, OSError, ValueError):
            pass
        finally:
            done.release()

    start_new_thread(ask, ())
    done.acquire(timeout=LOCAL_S if broker is None else BROKER_S)
    return rows[:]


def _request(home: str, broker: str | None, kinds: tuple[str, ...], prefix: str, states: tuple[str, ...]) -> object:
    from grassq.net.encoding import parse, query
    from grassq.net.http import Connection

    target: Target = home
    if broker is not None:
        from grassq.net.broker import open_broker

        target = open_broker(home, broker)
    connection = Connection(target, timeout_s=BROKER_S)
    pairs = (("kind", ",".join(kinds)), ("prefix", prefix), ("states", ",".join(states) or None))
    response = connection.request("GET", "/v1/complete" + query(pairs))
    return parse(response.body) if response.status == 200 else {}


def _rows(document: object) -> list[Row]:
    """Return the rows of an answer; whatever has another shape is left out."""
    rows = document.get("rows") if isinstance(document, dict) else None
    pairs = [row for row in rows if isinstance(row, list) and len(row) == 2] if isinstance(rows, list) else []
    return [(row[0], row[1]) for row in pairs if isinstance(row[0], str) and isinstance(row[1], str)]
