"""What jobs of a fault run do, and the judge of what became of them: nothing lost, nothing twice, no wrong code.

Each job writes a line to a ledger on the machine where it runs, as its first act. Nobody else writes there, and nothing
of Grass reads it: it is what happened, against which the broker's word is held.
"""

from __future__ import annotations

import hashlib
import signal
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Literal, NamedTuple

#: The ledger, in the home on the machine. `>>` opens with O_APPEND, and printf writes the line at once.
LEDGER = "ledger"
_STARTED = 'printf "%s %s\\n" "$GRASS_JOB_ID" "$GRASS_ATTEMPT" >>"$HOME/ledger"\n'
Kind = Literal["code", "talk", "loud", "signal", "child", "killed", "tree"]
KINDS: tuple[Kind, ...] = ("code", "talk", "loud", "signal", "child", "killed", "tree")
#: Codes that ssh, a shell or a signal could be mistaken for, and others.
CODES = (0, 0, 0, 1, 2, 3, 126, 127, 128, 137, 143, 254, 255)
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1)
LOUD_MAX = 300_000
TREE_FILES_MAX = 40
TREE_FILE_MAX = 60_000


class JobPlan(NamedTuple):
    """One job, and how it must end."""

    name: str
    kind: Kind
    script: str
    code: int | None
    signal: int | None
    log: bytes
    #: When it is killed, in seconds after the first fault may come; None for a job that ends by itself.
    killed_at_s: float | None
    #: The files that are sent with it, by name.
    tree: dict[str, bytes]


class Seen(NamedTuple):
    """What the broker says of a job."""

    state: str
    outcome: str | None
    code: int | None
    signal: int | None
    attempts: int
    log: bytes


def plan(random: Random, name: str, within_s: float, kinds: tuple[Kind, ...] = KINDS) -> JobPlan:
    """Draw a job whose end is known."""
    kind = random.choice(kinds)
    code: int | None = random.choice(CODES)
    number: int | None = None
    killed_at_s: float | None = None
    tree: dict[str, bytes] = {}
    lines, log = [_STARTED], b""
    if kind == "talk":
        count, pause = random.randint(1, 10), random.choice(("0.02", "0.1", "0.2"))
        lines.append(f"for n in $(seq {count}); do echo {name} line $n; sleep {pause}; done")
        log = b"".join(b"%s line %d\n" % (name.encode(), n) for n in range(1, count + 1))
    elif kind == "loud":
        size = random.randint(1, LOUD_MAX)
        lines.append(f"yes {name} | head -c {size}; sleep {random.uniform(0, 0.5):.2f}")
        text = name.encode() + b"\n"
        log = (text * (size // len(text) + 1))[:size]
    elif kind == "signal":
        number, code = random.choice(SIGNALS), None
        lines.append(f"sleep {random.uniform(0, within_s):.2f}; kill -s {number.name[3:]} $$; sleep 100")
    elif kind == "child":
        lines.append(f"sleep 1000 & sleep {random.uniform(0, within_s):.2f}")
    elif kind == "killed":
        code, killed_at_s = None, random.uniform(0, within_s)
        lines.append("sleep 1000")
    elif kind == "tree":
        count = random.randint(1, TREE_FILES_MAX)
        tree = {f"d{n % 3}/f{n}": random.randbytes(random.randint(0, TREE_FILE_MAX)) for n in range(count)}
        lines.append("LC_ALL=C; cat d*/f* | sha256sum")
        log = hashlib.sha256(b"".join(tree[name] for name in sorted(tree))).hexdigest().encode() + b"  -\n"
    if kind not in ("signal", "killed"):
        lines.append(f"exit {code}")
    return JobPlan(name, kind, "\n".join(lines), code, number, log, killed_at_s, tree)


def judge(job: JobPlan, seen: Seen, starts: int) -> list[str]:
    """Return what is wrong with the end of a job, a sentence each; `starts` is what the ledger says."""
    wrong = []
    if starts > 1:
        wrong.append(f"{job.name} was started {starts} times")
    if seen.attempts > 1:
        wrong.append(f"{job.name} had {seen.attempts} attempts")
    if job.killed_at_s is not None:
        if seen.state != "cancelled":
            wrong.append(f"{job.name} was killed and is {seen.state}")
        return wrong
    if starts == 0:
        wrong.append(f"{job.name} was never started")
    if (seen.code, seen.signal) not in _ends(job):
        ended = f"code {seen.code}, signal {seen.signal}, {seen.state}, {seen.outcome}"
        wrong.append(f"{job.name} ended with code {job.code}, signal {job.signal}, and is said to have: {ended}")
    if seen.log != job.log:
        wrong.append(f"{job.name} wrote {len(job.log)} bytes, and its log has {len(seen.log)} or others")
    return wrong


def _ends(job: JobPlan) -> list[tuple[int | None, int | None]]:
    """Return the codes and signals that may be said of a job."""
    right = [(job.code, job.signal)]
    if job.signal == signal.SIGINT:
        # Without Python and without an awk that tells, no shell can tell this signal from this code.
        right.append((128 + job.signal, None))
    return right


def starts(lines: Iterable[str]) -> Counter[int]:
    """Return how often each job was started, as the lines of a ledger say."""
    return Counter(int(line.split()[0]) for line in lines)
