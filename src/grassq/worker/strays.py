"""Run dirs without a stored job: which of them still run, and how to submit them again, for `grass doctor`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from typing import Any

from grassq import atomic_files
from grassq.core.model import AttemptId
from grassq.core.printable import exact_span
from grassq.run import rundir

#: Run dirs that are checked for the marker, newest job first.
LOOKED_AT_MAX = 10_000
#: Run dirs that are read; the others are only named.
READ_MAX = 100


def of_jobs(home: str, jobs: list[int], boot: str) -> list[dict[str, object]]:
    """Return the newest run dir of each of these jobs, none of which is stored."""
    newest = [(job, next(iter(atomic_files.numbers(f"{home}/jobs/{job}")), 0)) for job in jobs]
    return _described(home, newest, boot, "no job of that id is stored")


def unrecorded(home: str, boot: str) -> list[dict[str, object]]:
    """Return the run dirs that a restored broker has no record of."""
    found = rundir.attempts(home, LOOKED_AT_MAX)
    marked = [attempt for attempt in found if rundir.is_marked(rundir.attempt_dir(home, *attempt), rundir.UNRECORDED)]
    why = "the broker's store was restored from a backup and has no record of this attempt"
    return _described(home, marked, boot, why)


def running(home: str, jobs: Iterable[int], boot: str) -> list[AttemptId]:
    """Return the attempts of these jobs of which something runs."""
    found = []
    for job in jobs:
        for attempt in atomic_files.numbers(f"{home}/jobs/{job}"):
            if _runs(rundir.look(rundir.attempt_dir(home, job, attempt), boot)):
                found.append((job, attempt))
    return found


def _runs(found: rundir.RunDirState) -> bool:
    return found.exit is None and (found.shim_alive or found.command_alive or bool(found.members))


def store_of(home: str, job: int) -> str | None:
    """Return the id of the store that ordered the newest attempt of a job; None if its run dir does not say."""
    for attempt in atomic_files.numbers(f"{home}/jobs/{job}")[:1]:
        store = _spec(rundir.attempt_dir(home, job, attempt)).get("store")
        return store if isinstance(store, str) else None
    return None


def _described(home: str, attempts: list[AttemptId], boot: str, why: str) -> list[dict[str, object]]:
    strays = []
    for index, (job, attempt) in enumerate(attempts):
        about = _about(rundir.attempt_dir(home, job, attempt), boot) if index < READ_MAX else {"again": ""}
        strays.append({"path": f"jobs/{job}/{attempt}" if attempt else f"jobs/{job}", "why": why, **about})
    return strays


def _about(path: str, boot: str) -> dict[str, object]:
    """Return what a run dir says: the command, how it ended, the log, how to submit it again. Never its environment."""
    try:
        spec, found = rundir.read_spec(path), rundir.look(path, boot)
    except (OSError, ValueError):
        return {"again": ""}
    is_running = _runs(found)
    ended = found.exit or {}
    streams = [rundir.log_path(path, stream) for stream in rundir.streams_of(spec.split)]
    return {
        "command": _words(spec.argv[_asked(path).get("wrapper", 0) :]),
        "cwd": os.fsdecode(spec.cwd),
        "state": "running" if is_running else "ended" if ended else "lost" if found.claimed else "not started",
        "exit_code": ended.get("code"),
        "signal": ended.get("signal"),
        "pid": found.command[0] if is_running and found.command is not None else None,
        "logs": [stream for stream in streams if os.path.lexists(stream)],
        "again": _submit_again(path, spec),
    }


def _submit_again(path: str, spec: rundir.RunSpec) -> str:
    """Return the command that submits the words of a run dir again, in their queue and with the same request.

    Placeholders are filled in already. Variables of the job are left out: their values may be secret.
    """
    asked = _asked(path)
    queue = os.fsdecode(spec.env.get(b"GRASS_QUEUE", b"default"))
    name = os.fsdecode(spec.env.get(b"GRASS_JOB_NAME", b""))
    request, prefix = asked.get("request"), asked.get("prefix")
    options = [f"--{each}={amount}" for each, amount in request.items()] if isinstance(request, dict) else []
    options += [f"--name={name}"] if name else []
    project = os.fsdecode(spec.env.get(b"GRASS_PROJECT", b""))
    options += [f"--project={project}"] if project else []
    options += [f"--wrap={os.fsdecode(rundir.decode_word(asked['wrap']))}"] if "wrap" in asked else []
    limits = {"time-limit": spec.time_limit_s, "idle-limit": spec.idle_limit_s}
    options += [f"--{each}={exact_span(limit_s)}" for each, limit_s in limits.items() if limit_s]
    # Without the queue's own command, which the queue adds again.
    argv = spec.argv[asked.get("wrapper", 0) :]
    words = argv[prefix:] if isinstance(prefix, int) else argv
    typed = " ".join(map(shlex.quote, [queue, *options]))
    return f"cd {shlex.quote(os.fsdecode(spec.cwd))} && grass enqueue {typed} -- {_words(words)}"


def _asked(path: str) -> dict[str, Any]:
    asked = _spec(path).get("submitted")
    return asked if isinstance(asked, dict) else {}


def _words(argv: Iterable[bytes]) -> str:
    return shlex.join(os.fsdecode(word) for word in argv)


def _spec(path: str) -> dict[str, Any]:
    try:
        return atomic_files.parse(atomic_files.read(f"{path}/spec.json", rundir.SPEC_LIMIT) or b"") or {}
    except OSError:
        return {}
