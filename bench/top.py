"""The bars of `grass top` in a terminal of 120 times 40: first frame, key to paint, idle cost, memory, with many jobs.

`python -m bench top --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bench.homes import own_home, until
from bench.table import machine
from grassq.sdk import Client

JOBS = 100_000
AT_ONCE = 20_000
STARTS = 5
KEYS = 200
IDLE_S = 20.0
SETTLE_S = 5.0
START_S = 120.0
#: Seconds between two keys: a person that holds a key down.
KEY_EVERY_S = 0.05
#: Writes 50 MB a second in lines of 100 bytes.
LOUD = """
import sys, time
block = b"".join(b"%098d\\n" % n for n in range(5000))
began, count = time.monotonic(), 0
while True:
    sys.stdout.buffer.write(block)
    count += len(block)
    time.sleep(max(0.0, began + count / 50e6 - time.monotonic()))
"""


class Screen:
    """`grass top` on a terminal of its own."""

    def __init__(self) -> None:
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grassq", "top"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = b""

    def read(self, seconds: float) -> bytes:
        """Return what is written within some seconds, as soon as there is something."""
        if not select.select([self.fd], [], [], max(0.0, seconds))[0]:
            return b""
        with suppress(OSError):
            return os.read(self.fd, 1 << 20)
        return b""

    def until(self, mark: bytes) -> float:
        """Read until a text is written; return the seconds since the start."""
        while mark not in self.seen:
            part = self.read(START_S)
            assert part, f"never wrote {mark!r}: {self.seen[-2000:]!r}"
            self.seen += part
        return time.perf_counter() - self.began

    def drain(self, seconds: float) -> int:
        """Read for some seconds; return the number of bytes."""
        end, count = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            count += len(self.read(left))
        return count

    def key_to_paint(self, key: bytes, painted: Callable[[bytes], bool]) -> float:
        """Press a key; return the seconds until its effect is written."""
        began, out = time.perf_counter(), b""
        os.write(self.fd, key)
        while not painted(out):
            part = self.read(5.0)
            assert part, "a key was not answered"
            out += part
        return time.perf_counter() - began

    def cpu_s(self) -> float:
        """Return the processor time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        """Return the memory of the process."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def close(self) -> None:
        """End the process."""
        self.process.send_signal(signal.SIGTERM)
        while self.process.poll() is None:
            self.read(0.1)
        os.close(self.fd)


def measure(jobs: int) -> dict[str, object]:
    """Return all figures."""
    with own_home() as home:
        subprocess.run([sys.executable, "-m", "grassq", "create-queue", "q", "--capacity", "{lane: 1}"], check=True)
        with Client(home) as client:
            loud = client.submit([sys.executable, "-c", LOUD], queue="q", request={"lane": 1})
            until(lambda: loud.state == "running", "the loud job", START_S)
            for at in range(0, jobs, AT_ONCE):
                client.submit_many([["true"]] * min(AT_ONCE, jobs - at), queue="q", request={"lane": 1})
            figures: dict[str, object] = {"jobs": jobs, **_starts(), **_under_load("loud_log", is_loud=True)}
            loud.kill(grace_s=0)
            subprocess.run([sys.executable, "-m", "grassq", "pause"], check=True, stdout=subprocess.DEVNULL)
            until(lambda: loud.done(), "the end of the loud job", START_S)
            figures |= _under_load("quiet", is_loud=False) | _idle()
    return figures


def _starts() -> dict[str, object]:
    first, whole, plain = [], [], []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
        plain.append(time.perf_counter() - began)
        screen = Screen()
        first.append(screen.until(b"grass "))
        whole.append(screen.until(b"running"))
        screen.close()
    return {
        "import_textual_ms": round(1000 * statistics.median(plain)),
        "first_frame_ms": round(1000 * statistics.median(first)),
        "first_rows_ms": round(1000 * statistics.median(whole)),
    }


def _under_load(name: str, *, is_loud: bool) -> dict[str, object]:
    """Press keys: with a loud log those that leave the cursor on its job, else those that go through the jobs."""
    screen = Screen()
    screen.until(b"wait ")
    screen.drain(SETTLE_S)
    times = []
    for at in range(KEYS):
        screen.drain(KEY_EVERY_S)
        if is_loud:
            times.append(screen.key_to_paint(b"\t", lambda out: b" log 1 " in out))
        else:
            # The row under the cursor is drawn in reverse.
            times.append(screen.key_to_paint(b"j" if at < KEYS * 3 // 4 else b"k", lambda out: b"7m" in out))
    before = screen.cpu_s()
    written = screen.drain(IDLE_S / 2)
    cpu = (screen.cpu_s() - before) / (IDLE_S / 2)
    figures: dict[str, object] = {
        f"{name}_key_ms_median": round(1000 * statistics.median(times), 1),
        f"{name}_key_ms_p95": round(1000 * statistics.quantiles(times, n=20)[-1], 1),
        f"{name}_cpu_percent": round(100 * cpu, 1),
        f"{name}_kb_per_s": round(written / (IDLE_S / 2) / 1000, 2),
        f"{name}_memory_mib": round(screen.memory_mib(), 1),
    }
    screen.close()
    return figures


def _idle() -> dict[str, object]:
    screen = Screen()
    screen.until(b"wait ")
    screen.drain(SETTLE_S)
    before = screen.cpu_s()
    written = screen.drain(IDLE_S)
    figures: dict[str, object] = {
        "idle_cpu_percent": round(100 * (screen.cpu_s() - before) / IDLE_S, 2),
        "idle_kb_per_s": round(written / IDLE_S / 1000, 3),
    }
    screen.close()
    return figures


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench top", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"queued jobs (default: {JOBS})")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    figures = measure(arguments.jobs)
    print(machine())
    for name, figure in figures.items():
        print(f"{name:<24} {figure}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0
