"""Make a sweep of new jobs, and note the jobs that are added to one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.broker.sweeps.limits import limit
from grassq.core.model import FINAL, Constraints, Spec, State
from grassq.core.sweeps.sweep import LiveSweep, Sweep, SweepKind


class NewSweep(Struct, frozen=True, kw_only=True):
    """A sweep as it was asked for, before it has an id."""

    kind: SweepKind
    #: What the jobs are called; None for a name by the first id.
    name: str | None = None
    definition: str = ""
    at_once: int | None = None
    max_fails: int | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether the planner counts its jobs together; a sweep in a file may get a limit later."""
        return self.kind == "file" or self.at_once is not None or self.max_fails is not None


def sweep_name(first: int) -> str:
    """Return the name of a sweep that was given none: ids are never used again, so neither is this name."""
    return f"sweep-{first}"


def begin(batch: Batch, new: NewSweep, first: int, token: str | None) -> Sweep:
    """Store a new sweep, whose first job has this id."""
    limited = new.at_once is not None or new.max_fails is not None
    sweep = Sweep(
        id=first,
        name=new.name or sweep_name(first),
        kind=new.kind,
        definition=new.definition,
        created=batch.now,
        at_once=new.at_once,
        max_fails=new.max_fails,
        token=token,
        is_open=limited,
    )
    batch.changes.sweeps[first] = sweep
    if limited:
        _watch(batch, LiveSweep(sweep))
    return sweep


def renew(batch: Batch, sweep: Sweep, new: NewSweep) -> Sweep:
    """Store what a sweep is from now on; a limit counts at once."""
    after = replace(sweep, definition=new.definition, at_once=new.at_once, max_fails=new.max_fails)
    if after == sweep:
        return sweep
    batch.changes.sweeps[sweep.id] = after
    live = batch.board.sweeps.get(sweep.id)
    if live is None:
        added(batch, [sweep.id], is_new=False)
    else:
        live.sweep = after
        limit(batch.board, live)
    return current(batch, sweep.id) or after


def current(batch: Batch, id_: int) -> Sweep | None:
    """Return a sweep as it is now."""
    return batch.changes.sweeps.get(id_) or batch.store.sweeps([id_]).get(id_)


def added(batch: Batch, ids: Iterable[int], *, is_new: bool = True) -> None:
    """Keep the limits of sweeps that get more jobs; one that was stopped goes on, and counts failures anew."""
    for id_ in set(ids):
        sweep = current(batch, id_)
        if sweep is None or not sweep.is_limited:
            continue
        live = batch.board.sweeps.get(id_)
        if live is not None:
            if is_new and live.sweep.stopped is not None and live.stopping is None:
                live.sweep = batch.changes.sweeps[id_] = replace(live.sweep, stopped=None)
            continue
        counts = batch.store.in_sweep(id_)
        unfinished = sum(count for state, count in counts.items() if State(state) not in FINAL)
        failed = batch.store.failed_in_sweep(id_, sweep.counted_from)
        if not is_new and not unfinished:
            continue
        opened = batch.changes.sweeps[id_] = replace(sweep, is_open=True, stopped=None)
        _watch(batch, LiveSweep(opened, unfinished, failed))


def _watch(batch: Batch, live: LiveSweep) -> None:
    batch.board.sweeps[live.sweep.id] = live
    limit(batch.board, live)


def in_sweep(specs: Sequence[Spec], sweep: int, *, is_grouped: bool) -> list[Spec]:
    """Return specs as parts of a sweep; specs that share their constraints still do, which makes planning quick."""
    grouped: dict[int, Constraints] = {}
    found = []
    for spec in specs:
        constraints = spec.constraints
        if is_grouped:
            known = grouped.get(id(constraints))
            if known is None:
                known = grouped[id(constraints)] = _in_group(constraints, f"sweep:{sweep}")
            constraints = known
        found.append(replace(spec, sweep=sweep, constraints=constraints))
    return found


def _in_group(constraints: Constraints, group: str) -> Constraints:
    groups = () if constraints.groups is UNSET else constraints.groups
    return replace(constraints, groups=tuple(sorted({*groups, group})))
