"""Jobs as a tree: jobs of a sweep below its name, a rerun below its original, a job below the one it starts after."""

from __future__ import annotations

from bisect import bisect_right

from grassq.cli import job_text, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Job = Mapping[str, Any]

#: Deeper reruns do not stand in further.
INDENT_MAX = 30
#: The fewest jobs of one name that are a sweep.
SWEEP_MIN = 2


def as_tree(jobs: Sequence[Job]) -> tuple[list[Job], list[str]]:
    """Return the rows of a tree and the first cell of each: an id behind its branches, or the name of a sweep."""
    known = {job.get("id") for job in jobs}
    ids = sorted(id_ for id_ in known if isinstance(id_, int))
    reruns: dict[object, list[Job]] = {}
    roots: list[Job] = []
    for job in jobs:
        if job.get("rerun_of") in known and job.get("rerun_of") != job.get("id"):
            reruns.setdefault(job["rerun_of"], []).append(job)
        elif (parent := _starts_after(job, ids)) is not None:
            reruns.setdefault(parent, []).append(job)
        else:
            roots.append(job)
    names: dict[object, list[Job]] = {}
    for job in roots:
        if (key := _sweep_of(job)) is not None:
            names.setdefault(key, []).append(job)
    rows: list[Job] = []
    firsts: list[str] = []
    told: set[object] = set()
    for job in roots:
        key = _sweep_of(job)
        if len(names.get(key, ())) < SWEEP_MIN:
            _add(job, "", "", reruns, rows, firsts)
        elif key not in told:
            told.add(key)
            name = _name_of(names[key])
            rows.append(_sweep_row(name, names[key], reruns))
            firsts.append(f"{name} ({len(names[key])})")
            _add_all(names[key], "", reruns, rows, firsts)
    return rows, firsts


def _starts_after(job: Job, ids: Sequence[int]) -> int | None:
    """Return the last of the listed jobs that a job starts after; None if it starts after none of them."""
    found = None
    for ranges in (job.get("after") or {}).values():
        for text in ranges:
            first, _, last = str(text).partition("-")
            place = bisect_right(ids, min(int(last or first), int(job["id"]) - 1))
            if place and ids[place - 1] >= int(first):
                found = max(found or 0, ids[place - 1])
    return found


def _sweep_of(job: Job) -> object:
    """Return what the jobs of a sweep have in common: its id, or else their name."""
    return job.get("sweep") or job.get("name") or None


def _name_of(jobs: Sequence[Job]) -> str:
    names = {str(job.get("name")) for job in jobs}
    return names.pop() if len(names) == 1 else f"sweep:{jobs[0].get('sweep')}"


def _add(
    job: Job, before: str, below: str, reruns: Mapping[object, list[Job]], rows: list[Job], firsts: list[str]
) -> None:
    """Add a job and its reruns; without recursion, because a chain of reruns has no bound."""
    pending = [(job, before, below)]
    while pending:
        each, before, below = pending.pop()
        rows.append(each)
        # A job whose original or whose predecessors are not in the list stands alone, and says so.
        lone = f" (rerun of {each['rerun_of']})" if each.get("rerun_of") and not before else ""
        lone = lone or (f" ({job_text.after(each)})" if each.get("after") and not before else "")
        firsts.append(f"{before}{each.get('id')}{lone}")
        children = reruns.get(each.get("id"), [])
        pending += [
            (child, below + _branch(is_last), (below + _trunk(is_last))[:INDENT_MAX])
            for child, is_last in reversed([(child, child is children[-1]) for child in children])
        ]


def _add_all(
    jobs: Sequence[Job], below: str, reruns: Mapping[object, list[Job]], rows: list[Job], firsts: list[str]
) -> None:
    for job in jobs:
        is_last = job is jobs[-1]
        _add(job, below + _branch(is_last), below + _trunk(is_last), reruns, rows, firsts)


def _branch(is_last: bool) -> str:
    if render.is_utf8():
        return "└─ " if is_last else "├─ "
    return "`- " if is_last else "|- "


def _trunk(is_last: bool) -> str:
    return "   " if is_last else "│  " if render.is_utf8() else "|  "


def _sweep_row(name: str, jobs: Sequence[Job], reruns: Mapping[object, list[Job]]) -> Job:
    """Return a row for a sweep: how many of its jobs are in each state."""
    counts: dict[str, int] = {}
    for job in jobs:
        state = str(job.get("state"))
        counts[state] = counts.get(state, 0) + 1
    return {"id": None, "name": name, "state": ", ".join(f"{count} {state}" for state, count in counts.items())}
