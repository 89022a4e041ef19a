"""Apply a sweep in a file: tell what is new, changed, failed, kept and gone, and run what has to be run."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.actions.bulk import BulkChange
from grassq.broker.actions.jobs import KillJobs
from grassq.broker.engine import Engine
from grassq.broker.service import Draft
from grassq.broker.sweeps import apply as applying
from grassq.broker.sweeps.apply import ThereSweep
from grassq.broker.sweeps.objects import NewSweep
from grassq.core.job_options import JobOptions
from grassq.core.sweeps.difference import Difference, difference, point_of, replaced, unfinished
from grassq.core.sweeps.parameters import Parameters
from grassq.errors import Refused
from grassq.web.requests import SweepBody
from grassq.web.responses import range_text

#: How often a sweep is read anew because others have added jobs to it meanwhile.
TRIES = 8
#: The points of each kind that an answer lists.
LISTED_MAX = 1000

#: Of the options of a job, those that do not say what a point runs: they name it, or come from where it is typed.
_NOT_OF_POINT = ("name", "hold", "project", "parameters", "notify", "cwd", "send")
_WORDS = {"new": "new", "changed": "changed", "again": "failed again", "kept": "kept", "gone": "no longer in it"}

#: Submits jobs with a handler of the broker that returns None if they must be found anew.
Submit = Callable[[list[Draft], Callable[..., list[int] | None]], Awaitable[list[int] | None]]


class AppliedSweep(Struct, frozen=True):
    """What was done, or would be done."""

    found: Difference
    #: The new jobs, and the unfinished jobs that were ended.
    ids: Sequence[int] = ()
    ended: Sequence[int] = ()
    sweep: int | None = None


def with_digests(drafts: Iterable[Draft], options: JobOptions) -> dict[Parameters, Draft]:
    """Return the jobs of a sweep by point, each with what names its command and options."""
    shared = {name: value for name, value in msgspec.to_builtins(options).items() if name not in _NOT_OF_POINT}
    shared["send"] = [(tree.folder, tree.dest) for tree in options.send]
    # A directory counts if it was named; where the command was typed does not.
    shared["cwd"] = options.cwd
    first = hashlib.sha256(msgspec.msgpack.encode(sorted(shared.items())))
    found = {}
    for draft in drafts:
        spec, whole = draft.spec, first.copy()
        whole.update(msgspec.msgpack.encode((spec.command, spec.shell is not None, spec.env, spec.output)))
        found[point_of(spec.parameters)] = replace(draft, spec=replace(spec, point=whole.hexdigest()[:32]))
    return found


class SweepApplication:
    """One request to apply a sweep."""

    def __init__(self, engine: Engine, drafts: dict[Parameters, Draft], new: NewSweep, asked: SweepBody) -> None:
        self._engine, self._drafts, self._new, self._asked = engine, drafts, new, asked
        self._wanted = {point: draft.spec.point or "" for point, draft in drafts.items()}
        self._token = next(iter(drafts.values())).spec.by

    async def run(self, submit: Submit, key: str, digest: bytes) -> AppliedSweep:
        """Do what has to be done; with `dry_run`, only find it out."""
        ended: list[int] = []
        for number in range(TRIES):
            there = await self._read()
            found = await asyncio.to_thread(difference, self._wanted, there.jobs)
            if self._asked.dry_run:
                return AppliedSweep(found, sweep=there.sweep.id if there.sweep else None)
            if number == 0 and (old := replaced(found, there.jobs)):
                # Before their successors exist: a job that starts in this moment is kept, and has no successor.
                ended += await self._kill(old, f"{key}.r", digest, unstarted=True)
                continue
            drafts = [self._drafts[point] for point in self._drafts if point in found.runs]
            handler = partial(applying.run, new=self._new, there=there, token=self._token)
            ids = await submit(drafts, handler)
            if ids is None:
                continue
            if self._asked.prune and (gone := unfinished(found, there.jobs)):
                ended += await self._kill(gone, f"{key}.p", digest, unstarted=False)
            id_ = there.sweep.id if there.sweep else ids[0] if ids else None
            return AppliedSweep(found, ids, ended, id_)
        raise Refused("others change this sweep all the time; apply it again")

    async def _read(self) -> ThereSweep:
        there, is_whole = ThereSweep(), False
        while not is_whole:
            page = partial(applying.read_page, name=self._new.name or "", token=self._token, there=there)
            there, is_whole = await self._engine.read(page)
        return there

    async def _kill(self, ids: list[int], key: str, digest: bytes, *, unstarted: bool) -> list[int]:
        action = KillJobs(unstarted=unstarted)
        change = BulkChange(action, (), key=key, digest=digest, visible_to=self._token, ids=ids)
        return (await self._engine.change_in_steps(change.start, _no_wait)).ids


async def _no_wait() -> None:
    return None


def applied_text(name: str, done: AppliedSweep, asked: SweepBody, *, is_json: bool, is_quiet: bool) -> str:
    """Return what `grass sweep --file` prints."""
    points = {kind: getattr(done.found, kind) for kind in _WORDS}
    if is_json:
        told: dict[str, object] = {"name": name, "sweep": done.sweep, "dry_run": asked.dry_run}
        told |= {"first": done.ids[0] if done.ids else None, "count": len(done.ids), "ended": [*done.ended]}
        told |= {"counts": {kind: len(some) for kind, some in points.items()}}
        told |= {kind: [dict(point) for point in some[:LISTED_MAX]] for kind, some in points.items()}
        return msgspec.json.encode(told).decode() + "\n"
    if asked.dry_run:
        return _table(points) + f"sweep {name}: {_counted(points)}; nothing was enqueued\n"
    if is_quiet:
        return f"{range_text(done.ids)}\n" if done.ids else ""
    jobs = f"{len(done.ids)} {'job' if len(done.ids) == 1 else 'jobs'} {range_text(done.ids)}" if done.ids else "no job"
    over = f"; ended {len(done.ended)}" if done.ended else ""
    return f"sweep {name}: {jobs} ({_counted(points)}){over}\n"


def _counted(points: dict[str, tuple[Parameters, ...]]) -> str:
    return ", ".join(f"{len(some)} {_WORDS[kind]}" for kind, some in points.items() if some) or "no points"


def _table(points: dict[str, tuple[Parameters, ...]]) -> str:
    lines = []
    for kind, some in points.items():
        for point in some[:LISTED_MAX]:
            lines.append(f"{_WORDS[kind]:<16} {' '.join(f'{name}={value}' for name, value in point)}\n")
        if len(some) > LISTED_MAX:
            lines.append(f"{_WORDS[kind]:<16} ... and {len(some) - LISTED_MAX:,} more\n")
    return "".join(lines)
