"""What would let a waiting job start now: the planner is asked again with one small change of the job."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from grassq.core.forecast.scene import Scene
from grassq.core.job_options import PRIORITY_MAX
from grassq.core.model import Constraints, Job, Offer, State
from grassq.core.names import shown
from grassq.core.planner.board import Board
from grassq.core.planner.plan import plan
from grassq.core.resources.amounts import ONE, amount_text
from grassq.core.syntax.resource_names import POOLS, SIZES

HINTS_MAX = 3
#: How many changes of each sort are tried.
AMOUNTS_TRIED = 5
QUEUES_TRIED = 8
#: Parts of a device that are tried, and parts of a pool, largest first.
DEVICE_PARTS = (0.5, 0.25, 0.1)
POOL_PARTS = (0.75, 0.5, 0.25, 0.1)


def find_hints(scene: Scene, job: Job) -> list[str]:
    """Return changes with which a queued job would start in the next plan, at most HINTS_MAX; each was planned."""
    board = scene.board()
    if job.state is not State.QUEUED or _starts(board, scene.now, job):
        return []
    found: list[str] = []
    for sort in (_amounts(job), _elsewhere(scene, job), _priorities(scene, job)):
        # Of one sort, the smallest change that helps is told; each resource is a sort of its own.
        for changes in sort:
            said = next((words for words, changed in changes if _starts(board, scene.now, changed)), None)
            if said is not None:
                found.append(f"{said} it would start now")
            if len(found) == HINTS_MAX:
                return found
    return found


def _starts(board: Board, now: float, job: Job) -> bool:
    """Tell whether the next plan starts a job; the board is left as it was."""
    before = board.jobs.get(job.id)
    board.put(job)
    starts = any(job_id == job.id for job_id, _ in plan(board, now).placements)
    board.put(replace(job, state=State.CANCELLED) if before is None else before)
    return starts


Changes = Iterator[tuple[str, Job]]


def _amounts(job: Job) -> Iterator[Changes]:
    """Yield smaller amounts of each resource that a job asks for, largest first."""
    for name, amount in job.spec.request:
        yield (
            (f"with {name} {amount_text(less)}", _asking(job, name, less))
            for less in _less(name, amount)[:AMOUNTS_TRIED]
        )


def _less(name: str, amount: int) -> list[int]:
    if name in POOLS or name in SIZES:
        parts = [int(amount * part) // ONE * ONE for part in POOL_PARTS]
    else:
        whole = amount // ONE
        parts = [n * ONE for n in (whole - 1, whole // 2, 1)] + [int(part * ONE) for part in DEVICE_PARTS]
    return sorted({part for part in parts if 0 < part < amount}, reverse=True)


def _asking(job: Job, name: str, amount: int) -> Job:
    request = tuple((each, amount if each == name else asked) for each, asked in job.spec.request)
    return replace(job, spec=replace(job.spec, request=request))


def _elsewhere(scene: Scene, job: Job) -> Iterator[Changes]:
    """Yield the same job without the worker it names, and in queues that would run the same command."""
    if (named := job.spec.constraints.worker) is not None:
        anywhere: Constraints = replace(job.spec.constraints, worker=None)
        yield iter([(f"without --worker {shown(named)}", replace(job, spec=replace(job.spec, constraints=anywhere)))])
    # A token may be limited to some queues, which a scene does not know.
    if job.token is None and job.spec.by is None:
        queues = [offer.queue for offer in _like_offers(scene, job)][:QUEUES_TRIED]
        yield ((f"in queue {shown(queue)}", replace(job, spec=replace(job.spec, queue=queue))) for queue in queues)


def _like_offers(scene: Scene, job: Job) -> list[Offer]:
    """Return other queues that add to a job what its own queue adds."""
    offers = {offer.queue: offer for worker in scene.workers for offer in worker.said.offers}
    offers |= {queue: template.offer for queue, template in scene.templates.items() if queue not in offers}
    own = offers.get(job.spec.queue)
    if own is None:
        return []
    alike = [each for each in offers.values() if (each.prefix, each.cwd, each.env) == (own.prefix, own.cwd, own.env)]
    return [each for each in alike if each.queue != own.queue and not each.temporary]


def _priorities(scene: Scene, job: Job) -> Iterator[Changes]:
    """Yield higher priorities, just above those of waiting jobs; a token may be limited, so its jobs get none."""
    if job.token is not None or job.spec.by is not None:
        return
    above = sorted({each.priority for each in scene.queued if each.id != job.id and each.priority >= job.priority})
    tried = [priority + 1 for priority in (*above[:1], *above[-1:]) if priority < PRIORITY_MAX]
    yield ((f"with priority {priority}", replace(job, priority=priority)) for priority in dict.fromkeys(tried))
