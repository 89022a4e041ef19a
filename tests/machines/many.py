"""Many machines on this computer behind an ssh without a network: what they cost the daemon, and their way back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.world import FINAL, eventually
from tests.machines.ledger import LEDGER, starts
from tests.machines.near import Near

from grassq.sdk.client import Client

_FAKE = Path(__file__).with_name("fake_ssh.py")
#: A job writes to the ledger first, and ends with a code that follows from its number.
SCRIPT = 'printf "%s %s\\n" "$GRASS_JOB_ID" "$GRASS_ATTEMPT" >>"$HOME/ledger"; sleep {}; exit $((GRASS_JOB_ID % 7))'
ALL_END_S = 120.0


class Cost(NamedTuple):
    """What the daemon holds."""

    rss_mib: float
    descriptors: int
    threads: int
    #: The ssh processes, and what starts them.
    processes: int


class Many:
    """A daemon with many machines."""

    def __init__(self, folder: Path, count: int, *, rtt_ms: float = 10.0) -> None:
        self.hosts = folder / "hosts"
        self.names = [f"m{number:03}" for number in range(count)]
        ssh = folder / "ssh"
        self.hosts.mkdir()
        ssh.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S '{_FAKE}' '{self.hosts}' {rtt_ms} \"$@\"\n")
        ssh.chmod(0o755)
        self.near = Near(folder, ssh)
        for name in self.names:
            (self.hosts / name).mkdir()
            self.near.keep(name, name, cpus=4)

    def cost(self) -> Cost:
        """Return what the daemon holds now."""
        assert self.near.daemon is not None
        process = Path("/proc", str(self.near.daemon.pid))
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return Cost(
            int(status["VmRSS"].split()[0]) / 1024,
            len(list((process / "fd").iterdir())),
            int(status["Threads"]),
            len(self.near.masters()),
        )

    def submit(self, each: int, sleep_s: float) -> list[int]:
        """Submit so many jobs to each machine; return their ids."""
        with Client(self.near.home) as client:
            return [
                client.submit(["sh", "-c", SCRIPT.format(sleep_s)], worker=name).id
                for name in self.names
                for _ in range(each)
            ]

    def drop_all(self) -> None:
        """Kill every ssh process at once: every connection is gone."""
        for pid in self.near.masters():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ended(self, ids: list[int]) -> dict[int, dict[str, Any]]:
        """Wait until jobs have ended, and return what the broker says of them."""

        def rows() -> dict[int, dict[str, Any]]:
            found = self.near.show(f"{ids[0]}-{ids[-1]}")["jobs"]
            return {row["id"]: row for row in found} if all(row["state"] in FINAL for row in found) else {}

        return eventually(rows, f"{len(ids)} jobs end", ALL_END_S)

    def wrong(self, ids: list[int]) -> list[str]:
        """Wait until jobs have ended; return what the ledgers of the machines hold against it."""
        rows = self.ended(ids)
        lines = [
            line
            for name in self.names
            if (self.hosts / name / LEDGER).exists()
            for line in (self.hosts / name / LEDGER).read_text().splitlines()
        ]
        counted = starts(lines)
        wrong = [f"job {id_} was started {counted[id_]} times" for id_ in ids if counted[id_] != 1]
        return wrong + [f"job {id_} ended as {rows[id_]}" for id_ in ids if rows[id_]["exit_code"] != id_ % 7]

    def close(self) -> None:
        """End everything."""
        self.near.close()
