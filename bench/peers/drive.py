"""The far end of a contestant that lives in another environment: does what is asked on stdin, answers on stdout.

Nothing of Grass is imported here.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Protocol

ENV_SLOTS = "BENCH_SLOTS"
ENV_FOLDER = "BENCH_FOLDER"


class Driver(Protocol):
    """One open client."""

    def many(self, argv: list[str], count: int, limit_s: float) -> float:
        """Run so many, on all slots; how many seconds that took."""
        ...

    def one(self, argv: list[str]) -> None:
        """Submit one and do not wait for it."""
        ...

    def settle(self) -> None:
        """Wait for the end of what `one` has submitted."""
        ...

    def in_turn(self, argv: list[str], count: int, limit_s: float) -> None:
        """Run so many, one at a time."""
        ...

    def close(self) -> None:
        """End everything."""
        ...


def slots() -> int:
    """How many jobs may run at a time."""
    return int(os.environ[ENV_SLOTS])


def folder() -> str:
    """Where files may be written."""
    return os.environ[ENV_FOLDER]


def answers() -> int:
    """A descriptor for the answers; what libraries print goes to stderr from now on."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def serve(driver: Driver, out: int) -> None:
    """Answer one line with one line until there are no more."""
    _say(out, {"ready": True})
    try:
        for line in sys.stdin:
            _say(out, _answer(driver, json.loads(line)))
    finally:
        driver.close()


def _answer(driver: Driver, ask: dict[str, Any]) -> dict[str, Any]:
    if ask["do"] == "many":
        return {"seconds": driver.many(ask["argv"], ask["count"], ask["limit_s"])}
    if ask["do"] == "in_turn":
        driver.in_turn(ask["argv"], ask["count"], ask["limit_s"])
        return {}
    if ask["do"] == "settle":
        driver.settle()
        return {}
    began = time.monotonic_ns()
    driver.one(ask["argv"])
    return {"began": began, "returned": time.monotonic_ns()}


def _say(out: int, answer: dict[str, Any]) -> None:
    os.write(out, json.dumps(answer).encode() + b"\n")
