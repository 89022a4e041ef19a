"""Limits of groups: what the jobs of a project or with a tag may hold at once."""

from __future__ import annotations

from collections.abc import Mapping

from grassq.broker.batch import Batch
from grassq.broker.documents.limits import LimitDocument
from grassq.broker.service import Done
from grassq.core.model import ID_MAX
from grassq.core.names import shown
from grassq.core.planner.limits.groups import GroupLimit, GroupUse
from grassq.core.planner.limits.membership import SWEEP_GROUP
from grassq.core.resources.amounts import amount_number, parse_amounts
from grassq.core.syntax.selectors import ByProject, ByTag, parse
from grassq.errors import BadInput, NotFound, Refused

#: How many groups may have a limit: the planner looks at the limits of a job's groups before it places the job.
LIMITS_MAX = 1000


def check_group(text: str) -> str:
    """Return the name of a group that may have a limit; raise BadInput for any other text."""
    try:
        meant = parse(text)
    except BadInput:
        meant = None
    if isinstance(meant, ByTag) and meant.value is not None:
        return f"tag:{meant.key}={meant.value}"
    if isinstance(meant, ByProject) and meant.job is None:
        return f"project:{meant.name}"
    raise BadInput(f"{shown(text)} is not a group that can have a limit: write project:NAME or tag:KEY=VALUE")


def read_limit(amounts: Mapping[str, object], jobs: int | None) -> GroupLimit:
    """Read what a group may hold at once; raise BadInput for what is no amount."""
    if not amounts and jobs is None:
        raise BadInput("say what the group may hold: gpu=4, mem=64G, jobs=10; `--remove` removes a limit")
    if jobs is not None and not 1 <= jobs <= ID_MAX:
        raise BadInput(f"jobs is a number from 1 to {ID_MAX:,}, not {jobs}")
    return GroupLimit(parse_amounts(amounts, "limited"), jobs)


def set_limit(batch: Batch, group: str, limit: GroupLimit | None) -> Done:
    """Set the whole limit of a group, or remove it; jobs that hold more go on."""
    known = _of_users(batch.board.group_limits)
    if limit is None and group not in known:
        raise NotFound(f"there is no limit of {shown(group)}; `grass limit` lists them")
    if limit is not None and group not in known and len(known) >= LIMITS_MAX:
        raise Refused(f"{LIMITS_MAX} groups have a limit already; remove one first: grass limit GROUP --remove")
    batch.changes.group_limits[group] = limit
    batch.board.set_group_limit(group, limit)
    if limit is None:
        return Done([])
    if not batch.board.groups.use[group].exceeds(limit):
        return Done([])
    return Done([], [f"the running jobs of {group} hold more than that, and will finish"])


def limit_documents(batch: Batch) -> list[LimitDocument]:
    """Return every limit with what the jobs of its group hold now, by group."""
    limits = _of_users(batch.board.group_limits)
    return [_document(group, limit, batch.board.groups.use[group]) for group, limit in sorted(limits.items())]


def _of_users(limits: Mapping[str, GroupLimit]) -> dict[str, GroupLimit]:
    """Return the limits that people have set, without those of sweeps."""
    return {name: limit for name, limit in limits.items() if not name.startswith(SWEEP_GROUP)}


def _document(group: str, limit: GroupLimit, held: GroupUse) -> LimitDocument:
    return {
        "group": group,
        "amounts": {name: amount_number(most) for name, most in limit.amounts.items()},
        "jobs": limit.jobs,
        "held": {name: amount_number(held.amounts.get(name, 0)) for name in limit.amounts},
        "running": held.jobs,
    }
