"""Lines of a job's log as people see them, and the search in it, asked of the daemon."""

from __future__ import annotations

from time import sleep

from grassq.errors import EXIT_USAGE, BadInput, Refused
from grassq.net.encoding import query
from grassq.net.event_stream import read_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from grassq.net.client import ApiClient

    Document = dict[str, Any]

#: Lines that are asked for at once.
PAGE = 2_000
#: A daemon that still indexes the log is asked again after this long.
ASK_AGAIN_S = 0.2
#: A search that is silent for this long is given up; the daemon tells its progress more often.
SEARCH_SILENT_S = 60.0
HITS_MAX = 1_000_000


def ask_lines(client: ApiClient, job: int, **asked: object) -> Document:
    """Return one answer of GET /v1/jobs/ID/log/lines."""
    return client.get(f"jobs/{job}/log/lines" + query(asked.items()))


def lines(client: ApiClient, job: int, first: int, last: int | None, **log: object) -> Iterator[Document]:
    """Yield the lines from number `first` to `last`, or to the end; wait while the daemon indexes the log."""
    while last is None or first <= last:
        count = PAGE if last is None else min(PAGE, last - first + 1)
        answer = ask_lines(client, job, line=first, count=count, **log)
        yield from answer["lines"]
        if answer["lines"]:
            first = answer["lines"][-1]["n"] + 1
        elif answer["is_whole"]:
            return
        else:
            sleep(ASK_AGAIN_S)


def search(client: ApiClient, job: int, text: str, *, ignore_case: bool, **log: object) -> Iterator[Document]:
    """Yield the hits of a regular expression; raise what ended the search early."""
    asked = {"q": text, "regex": 1, "i": int(ignore_case), "limit": HITS_MAX, **log}
    parts, connection = client.stream(f"/v1/jobs/{job}/log/search" + query(asked.items()), SEARCH_SILENT_S)
    try:
        for message, _ in read_frames(parts):
            if "n" in message:
                yield message
            elif message.get("end"):
                _raise(message.get("error"))
                return
        raise Refused("the daemon ended during the search; search again")
    finally:
        connection.close()


def _raise(error: Document | None) -> None:
    if error:
        kind = BadInput if error.get("exit") == EXIT_USAGE else Refused
        raise kind(str(error.get("message")))
