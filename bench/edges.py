"""What dependencies cost: submit, load and end a chain, a fan-in and 100,000 edges, beside jobs without any.

Everything runs in one process on a store in a file. `python -m bench edges --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.table import tell_rows
from grassq.broker import service
from grassq.broker.decider import Decider
from grassq.broker.inbox import Call, FromWorker
from grassq.broker.service import Draft
from grassq.core.messages import Hello, Report
from grassq.core.model import Offer, Outcome, Spec, WorkerInfo
from grassq.core.resources.amounts import parse_request
from grassq.core.resources.capacity import Pool
from grassq.core.states import Exited
from grassq.store.sqlite import SqliteStore

CHAIN, FAN_IN, EDGES = 10_000, 10_000, 100_000
ENVIRONMENT = b"\x90"


class RealClock:
    """The clocks of this machine."""

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def mono(self) -> float:
        """Return seconds that never decrease."""
        return time.monotonic()


class Broker:
    """A decider on a file, with one worker that has one processor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys = 0
        self.decider = Decider(SqliteStore(str(path)), RealClock(), incarnation="one")
        info = WorkerInfo("w", "boot", {"cpu": Pool(1_000_000)}, (Offer("default"),))
        self.decider.process([FromWorker("w", Hello(info))])

    def submit(self, *drafts: Draft) -> list[int]:
        """Submit jobs in one batch."""
        self._keys += 1
        key = f"key{self._keys}"
        call = Call(lambda batch: service.submit(batch, drafts, key, b"digest"), True)
        answer = self.decider.process([call]).answers[0][1]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list)
        return answer

    def fail(self, job: int) -> None:
        """Let a running job fail."""
        self.decider.process([FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 1)))])

    def load(self) -> float:
        """Return the seconds that a new broker takes until it can work."""
        began = time.perf_counter()
        self.decider.reload()
        return time.perf_counter() - began


def a_draft(after: str = "") -> Draft:
    """Return a job that starts after others."""
    spec = Spec((b"true",), "default", parse_request({"cpu": 1}), b"/", b"digest")
    draft = Draft(spec, ENVIRONMENT)
    return replace(draft, after=(("ok", (after,)),)) if after else draft


def measure(scale: float) -> list[dict[str, object]]:
    """Return one row for each kind."""
    chain, fan_in, edges = int(CHAIN * scale), int(FAN_IN * scale), int(EDGES * scale)
    return [
        _row("no dependency", lambda broker: [broker.submit(*[a_draft()] * chain)], 0),
        _row(
            "a chain", lambda broker: [broker.submit(a_draft(str(id_) if id_ else "")) for id_ in range(chain)], chain
        ),
        _row("a fan-in", lambda broker: [broker.submit(*[a_draft()] * fan_in), broker.submit(a_draft("all"))], fan_in),
        _row("a fan-out", lambda broker: [broker.submit(a_draft()), broker.submit(*[a_draft("1")] * edges)], edges),
    ]


def _row(name: str, fill: Callable[[Broker], object], edges: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "store.db")
        began = time.perf_counter()
        fill(broker)
        stored = time.perf_counter() - began
        loaded = broker.load()
        began = time.perf_counter()
        broker.fail(1)
        ended = time.perf_counter() - began
    return {
        "kind": name,
        "edges": edges,
        "submit_s": round(stored, 2),
        "load_s": round(loaded, 3),
        "first_job_fails_s": round(ended, 3),
    }


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench edges", description=__doc__)
    parser.add_argument("--scale", metavar="X", type=float, default=1.0, help="multiply all sizes (default 1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    load = os.getloadavg()[0]
    tell_rows(measure(arguments.scale), load, arguments.json, scale=arguments.scale)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
