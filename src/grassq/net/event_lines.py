"""Changes of jobs as the daemon reports them, over connections that may break: each change once, and in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

from grassq.errors import Unreachable
from grassq.net.http import Connection

LINE_MAX = 1 << 20
#: Seconds until a daemon that is away is asked again: at first, and at most.
AWAY_S, AWAY_MAX_S = 0.2, 2.0

#: Opens the stream after a position, or from now on; starts a daemon that is away only if the flag is set.
Ask = Callable[[str | None, bool], tuple[Iterator[bytes], Connection]]


class EventLines:
    """Iterates over lines as documents, for ever: waits for a daemon that goes away, and asks it for the rest.

    `reread` says that changes were missed: read the jobs again. Heartbeats are left out, and so is `subscribed` after
    the first connection.
    """

    def __init__(self, ask: Ask, tell: Callable[[str], None]) -> None:
        """Read the streams that `ask` opens; `tell` gets a message each time the daemon goes away."""
        self._ask = ask
        self._tell = tell
        self._since: str | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        parts, connection = self._ask(None, True)
        pause_s = AWAY_S
        while True:
            try:
                for document in self._read(parts):
                    pause_s = AWAY_S
                    is_resumed = self._since is not None and document.get("event") == "subscribed"
                    self._since = f"{document.get('epoch')}.{document.get('seq')}"
                    if document.get("event") != "heartbeat" and not is_resumed:
                        yield document
                why = "the daemon ended its answer"
            except Unreachable as error:
                why = str(error)
            finally:
                connection.close()
            self._tell(f"{why}; waiting for the daemon to come back")
            parts, connection = self._again(pause_s)
            pause_s = min(2 * pause_s, AWAY_MAX_S)

    def _again(self, pause_s: float) -> tuple[Iterator[bytes], Connection]:
        while True:
            sleep(pause_s)
            try:
                return self._ask(self._since, False)
            except Unreachable:
                pause_s = min(2 * pause_s, AWAY_MAX_S)

    def _read(self, parts: Iterator[bytes]) -> Iterator[dict[str, Any]]:
        buffer = b""
        for part in parts:
            *lines, buffer = (buffer + part).split(b"\n")
            if len(buffer) > LINE_MAX:
                raise _unexpected()
            for line in lines:
                try:
                    document = json.loads(line)
                except (ValueError, RecursionError):
                    raise _unexpected() from None
                if not isinstance(document, dict):
                    raise _unexpected()
                yield document


def _unexpected() -> Unreachable:
    return Unreachable("the daemon sends events that cannot be read; is it another version? try `grass restart`")
