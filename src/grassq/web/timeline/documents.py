"""The answer of a timeline, and its types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from grassq.broker.summary.timeline import Placed, Present
from grassq.broker.views import Document
from grassq.core.timeline.blocks import LaneBlock, LaneKey, MergedBlock
from grassq.core.timeline.merge import NARROW_PX, Shown, merge_lanes
from grassq.web.timeline.past import PastAttempt
from grassq.web.timeline.plan import TimelinePlan

ShownLanes = dict[LaneKey, list[Shown]]
#: Blocks in one answer.
BLOCKS_MAX = 5_000
#: What is told of a lane that there is no more.
_GONE: Document = {"worth": 1.0, "online": False, "drained": False, "others": 0.0}


#: Seconds since the epoch; `to` is null while an attempt runs, or where the end of a planned one is not known.
_Times = TypedDict("_Times", {"from": float, "to": float | None})
_WindowTimes = TypedDict("_WindowTimes", {"from": float, "to": float})


class TimelineBlockDocument(_Times, total=False):
    """An attempt on one lane, or several that are too narrow to be drawn."""

    kind: Literal["past", "running", "planned", "merged"]
    job: int
    attempt: int
    state: str
    #: The part of the lane that is held; of a merged block the mean.
    amount: float
    #: How a failed attempt ended.
    cause: str | None
    #: Low end, middle and high end of a planned start.
    starts: list[float] | None
    ends: list[float] | None
    #: Of a merged block: the attempts in it, and how many of them failed.
    count: int
    failed: int
    #: Of a merged block: the smallest and the largest part held by a single attempt.
    least: float
    most: float


class TimelineLaneDocument(TypedDict):
    """A device, or what a worker has beside its devices."""

    worker: str
    resource: str
    id: str | None
    worth: float
    online: bool
    drained: bool
    others: float
    blocks: list[TimelineBlockDocument]


class TimelineJobDocument(TypedDict):
    """What is told of a job whose block is drawn."""

    name: str | None
    command: str
    queue: str
    request: dict[str, float]
    project: str | None
    #: The name of the token the job was submitted with; null for the owner.
    by: str | None


class TimelineDocument(_WindowTimes):
    """What ran, runs and is planned on every device."""

    schema: int
    now: float
    #: Whether all attempts of this time are in the answer.
    is_whole: bool
    #: Attempts of jobs that ended before this time may be missing.
    known_from: float | None
    #: Whether planned blocks and ends are in the answer.
    plan: bool
    #: Whether the plan knows all changes so far; else a newer one is being made, or will be in a moment.
    is_plan_current: bool
    since: str
    lanes: list[TimelineLaneDocument]
    jobs: dict[str, TimelineJobDocument]


class Window:
    """The time that is asked for, and how many pixels it has."""

    def __init__(self, begin: float, end: float, px: int) -> None:
        self.begin, self.end, self.px = begin, end, px

    @property
    def narrow_s(self) -> float:
        """The seconds below which a block is too narrow to be drawn."""
        return NARROW_PX * (self.end - self.begin) / self.px


def merged_lanes(window: Window, now: Present, past: Iterable[PastAttempt], plan: TimelinePlan | None) -> ShownLanes:
    """Return the blocks of every lane; called in a thread."""
    lanes: dict[LaneKey, list[LaneBlock]] = {key: [] for key in now.lanes}
    running = {(block.job, block.attempt) for _, block in now.blocks}
    for each in past:
        for resource, id_, amount in each.parts:
            key = LaneKey(each.worker, resource, id_)
            block = LaneBlock(each.job, each.number, "past", each.state, each.begin, each.end, amount, each.cause)
            lanes.setdefault(key, []).append(block)
    _add(lanes, now.blocks, window)
    if plan is not None:
        # A job that has started since the plan was made is drawn once.
        ahead = [placed for placed in plan.blocks if (placed[1].job, placed[1].attempt) not in running]
        _add(lanes, ahead, window)
    return merge_lanes(lanes, window.narrow_s, BLOCKS_MAX)


def _add(lanes: dict[LaneKey, list[LaneBlock]], placed: Placed, window: Window) -> None:
    for key, block in placed:
        if block.begin <= window.end and (block.end is None or block.end >= window.begin):
            lanes.setdefault(key, []).append(block)


def lane_documents(shown: ShownLanes, now: Present, plan: TimelinePlan | None) -> list[Document]:
    """Return the lanes as data, by worker, resource and id."""
    return [
        {
            "worker": key.worker,
            "resource": key.resource,
            "id": key.id,
            **(now.lanes.get(key) or now.used_lanes.get(key) or _GONE),
            "blocks": [_block(block, plan) for block in shown[key]],
        }
        for key in sorted(shown, key=lambda key: key.order)
    ]


def _block(block: Shown, plan: TimelinePlan | None) -> dict[str, object]:
    if isinstance(block, MergedBlock):
        told: dict[str, object] = {"kind": "merged", "from": block.begin, "to": block.end, "count": block.count}
        return told | {"failed": block.failed, "amount": block.amount, "least": block.least, "most": block.most}
    told = {"kind": block.kind, "job": block.job, "attempt": block.attempt, "state": block.state}
    told |= {"from": block.begin, "to": block.end, "amount": block.amount, "cause": block.cause}
    if block.kind != "past":
        told["starts"] = plan.starts.get(block.job) if plan and block.kind == "planned" else None
        told["ends"] = plan.ends.get(block.job) if plan else None
    return told
