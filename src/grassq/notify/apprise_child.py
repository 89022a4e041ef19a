"""Sends one notice through apprise, in a process of its own: it can be ended, and its URL is in no command line."""

from __future__ import annotations

import json
import logging
import sys

#: What the parent is told by the exit code.
SENT, REFUSED, NOT_INSTALLED, NO_TARGET = 0, 1, 3, 4
STDIN_MAX = 65_536


def main() -> int:
    """Read the URL and the words from stdin, send them, and return how it went; print why not on stdout."""
    asked = json.loads(sys.stdin.buffer.read(STDIN_MAX))
    try:
        import apprise
    except ImportError:
        return NOT_INSTALLED
    said: list[str] = []
    handler = _Collect(said)
    logging.getLogger("apprise").addHandler(handler)
    logging.getLogger("apprise").propagate = False
    sender = apprise.Apprise()
    if not sender.add(asked["url"]):
        return NO_TARGET
    kind = apprise.NotifyType.FAILURE if asked["bad"] else apprise.NotifyType.INFO
    if sender.notify(body=asked["text"], title=asked["title"], notify_type=kind):
        return SENT
    sys.stdout.write(said[-1] if said else "")
    return REFUSED


class _Collect(logging.Handler):
    """Keeps the warnings of apprise."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._said.append(record.getMessage())


if __name__ == "__main__":
    sys.exit(main())
