"""The workers on a board: what each said of itself, and what it has free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from grassq.core.model import ANYWHERE, AttemptId, Constraints, Offer, QueueTemplate, RemoteSubmitter, WorkerInfo
from grassq.core.names import DEFAULT_QUEUE
from grassq.core.printable import exact_span
from grassq.core.resources.amounts import Allocation, Request
from grassq.core.resources.capacity import Capacity, Devices, Limits, Supply, bind, supply_of, union
from grassq.core.resources.device_changes import changed_capacity
from grassq.core.resources.fit import FreeView, Shortage, fit, most
from grassq.core.resources.ledger import Ledger
from grassq.core.resources.slots import slot_set_of
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF, VRAM, VRAM_OF
from grassq.errors import Refused

#: How many MaxFits a worker keeps: the ones used last.
MAX_FITS_KEPT = 1000


class MaxFit:
    """The most that requests with these resource names could get at a worker that runs nothing else.

    A drained device gives nothing: a job that needs one keeps no room, and waits until the device is undrained.
    """

    def __init__(self, free_view: FreeView, names: tuple[str, ...]) -> None:
        self._free_view = free_view
        self.most = [most(name, free_view) for name in names]

    def holds(self, request: Request) -> bool:
        """Tell whether a request could get all it asks for."""
        return not isinstance(fit(request, self._free_view), Shortage)


def max_fits(machine: Ledger, offers: Mapping[str, Ledger]) -> Callable[[str, tuple[str, ...]], MaxFit]:
    """Return a function that gives a worker's MaxFit by queue and resource names, each made when first needed."""

    @lru_cache(MAX_FITS_KEPT)
    def max_fit(queue: str, names: tuple[str, ...]) -> MaxFit:
        return MaxFit(FreeView(machine.emptied(), offers[queue].emptied()), names)

    return max_fit


class WorkerRoles(Struct, frozen=True):
    """What a broker itself knows of its workers; a worker cannot claim a role."""

    #: Workers in the broker's own process: their attempts need no lease.
    trusted: frozenset[str] = frozenset()
    #: Workers that see the broker's disk: programs and directories are checked before a job is stored.
    shares_disk: frozenset[str] = frozenset()
    #: The worker that `create-queue` means where no worker is named.
    default: str | None = None

    def is_here(self, worker: str | None) -> bool:
        """Tell whether the worker that is named, or the default worker if none is, shares the broker's disk."""
        return worker is None or worker in self.shares_disk


def in_process(worker: str | None) -> WorkerRoles:
    """Return the roles of a broker that has this worker in its own process, or none."""
    own = frozenset() if worker is None else frozenset({worker})
    return WorkerRoles(own, own, worker)


class WorkerState(Struct):
    """A worker on the board: its info, the ledger of its machine and the ledger of each offer."""

    info: WorkerInfo
    #: What the worker said of itself; `info` has the queues defined at the broker as well.
    said: WorkerInfo
    online: bool
    since: float
    machine: Ledger
    offers: dict[str, Ledger]
    #: Returns the MaxFit of requests in a queue that name these resources.
    max_fit: Callable[[str, tuple[str, ...]], MaxFit]
    #: The user wants no new starts here.
    drained: bool = False
    #: When an offline worker was last heard, on the broker's monotonic clock; at the earliest the broker's start.
    heard: float = 0.0
    #: When the earlier boots that attempts were placed in were last heard, on the same clock. Another boot may be
    #: another machine with a copy of the worker's home, so it says nothing about these attempts' processes.
    earlier_boots: dict[str, float] = field(default_factory=dict)
    #: Attempts that may run here and that a restored store has no record of, so that their devices are not counted.
    unrecorded: set[AttemptId] = field(default_factory=set)
    #: By queue: the commit before this worker offered it; see `offered_since`.
    offered: Mapping[str, int] = {}

    @property
    def takes(self) -> bool:
        """Whether jobs may be placed here now."""
        return self.online and not self.drained and not self.unrecorded and self.info.disk_short is None

    def silent_s(self, now: float) -> float:
        """Return for how many seconds this worker has been offline."""
        return 0.0 if self.online else max(0.0, now - self.heard)

    def refuses(self, queue: str, constraints: Constraints) -> str | None:
        """Return why a job with these constraints can never run in a queue here; None if it can."""
        if self.info.apart and queue == DEFAULT_QUEUE and not _is_meant_for_elsewhere(constraints):
            name = self.info.name
            return f"machine {name} has no files of this computer: --send sends some, --worker {name} needs none"
        if constraints == ANYWHERE:
            return None
        if constraints.worker not in (None, self.info.name):
            return f"it asks for worker {constraints.worker}"
        missing = sorted(set(constraints.labels) - set(self.info.labels))
        if missing:
            return f"worker {self.info.name} has no label {missing[0]}"
        if constraints.files and not self.info.takes_files:
            return f"worker {self.info.name} cannot take files, and the job has --send, --fetch or their like"
        if constraints.wraps and not self.info.wraps:
            return f"worker {self.info.name} is of an earlier release, which has no --wrap"
        has_limit = constraints.limit_s is not UNSET or constraints.idle_limit is True
        if has_limit and not self.info.keeps_limits:
            return f"worker {self.info.name} is of an earlier release, which keeps no time limits"
        offer = self.offer(queue)
        if offer is None:
            return f"worker {self.info.name} has no queue {queue!r}"
        if constraints.needs_command and not offer.prefix:
            return f"queue {queue!r} has no command, and the job has no words"
        if (why := _is_too_long(offer, constraints)) is not None:
            return why
        return None if constraints.remote is None else _turns_away(offer, constraints)

    def offer(self, queue: str) -> Offer | None:
        """Return this worker's offer of a queue."""
        return next((offer for offer in self.info.offers if offer.queue == queue), None)

    def own_offer(self, queue: str) -> Offer | None:
        """Return the offer of a queue that was made on this worker, not at the broker."""
        return next((offer for offer in self.said.offers if offer.queue == queue), None)

    def offered_since(self, queue: str) -> int:
        """Return the number of the last commit before this worker offered a queue."""
        return self.offered.get(queue, 0)

    @property
    def drained_devices(self) -> Mapping[str, frozenset[str]]:
        """The devices here that are given to no new job, by resource."""
        return self.machine.drained

    def is_leaving(self, resource: str, device: str) -> bool:
        """Tell whether a device that a job holds was removed: it is gone when the job ends."""
        supply = self.machine.supply.get(resource)
        return not isinstance(supply, Devices) or all(device != each.id for each in supply.devices)

    def keeps(self, allocation: Allocation) -> bool:
        """Tell whether new jobs may get all devices of an allocation: none of them is drained or was removed."""
        for name, held in allocation.items():
            group = VRAM_OF if name == VRAM else name
            for device in held if isinstance(held, dict) and group != SLOT else ():
                if device in self.drained_devices.get(group, ()) or self.is_leaving(group, device):
                    return False
        return True

    def resource_names(self) -> frozenset[str]:
        """Return every resource that this machine has or that a queue here limits."""
        names = {*self.machine.supply, *(name for offer in self.info.offers for name in offer.limits)}
        return frozenset(names | {VRAM} if VRAM_OF in names else names)

    def free_view(self, queue: str) -> FreeView:
        """Return what is free here for jobs of a queue."""
        return FreeView(self.machine, self.offers[queue])


def _is_meant_for_elsewhere(constraints: Constraints) -> bool:
    """Tell whether a job does not rely on the directory it was submitted in: it brings files, or names a machine."""
    named = constraints.worker is not None or bool(constraints.labels)
    return named or constraints.files is True or constraints.remote is not None


def _is_too_long(offer: Offer, constraints: Constraints) -> str | None:
    """Return why a queue does not take a job with this time limit; None if it does."""
    asked_s, most_s = constraints.limit_s, offer.max_time_limit_s
    if isinstance(asked_s, UnsetType) or most_s is None or asked_s <= most_s:
        return None
    return (
        f"queue {offer.queue!r} allows a time limit of at most {exact_span(most_s)}, "
        f"and the job has {exact_span(asked_s)}"
    )


def _turns_away(offer: Offer, constraints: Constraints) -> str | None:
    """Return why a queue takes no job from another machine, or not with what its sender chose; None if it does.

    The directory and the variables of a job could make another program of the queue's wrapper, or of its command. The
    output file of a job is written outside of the wrapper, and is no file that the command chose.
    """
    remote = constraints.remote or RemoteSubmitter()
    if not offer.prefix and not offer.unsecure and not remote.bare:
        return (
            f"queue {offer.queue!r} takes no jobs from other machines: it has no command of its own; "
            f"on its worker, `grass create-queue {offer.queue} --unsecure` lets them run any program"
        )
    if not offer.prefix and offer.wrap is None:
        return None
    has_command = bool(offer.prefix)
    for chosen, option in (
        (remote.own_cwd, "--cwd"),
        (remote.output is True, "--output"),
        (has_command and remote.shell, "--shell"),
        (has_command and constraints.wraps is True, "--wrap"),
    ):
        if chosen:
            return f"queue {offer.queue!r} takes no {option} from other machines"
    refused = [name for name in remote.env if name not in offer.allow_env]
    if refused:
        name = refused[0].decode("utf-8", "backslashreplace")
        return f"queue {offer.queue!r} takes no variable {name} from other machines (--allow-env {name} would)"
    return None


def with_templates(info: WorkerInfo, templates: Mapping[str, QueueTemplate]) -> WorkerInfo:
    """Return a worker with the queues of the broker that its labels match; a queue of its own comes first."""
    own = {offer.queue for offer in info.offers}
    more = [
        t.offer
        for q, t in sorted(templates.items())
        if q not in own and set(t.labels) <= set(info.labels) and _understands(info, t.offer)
    ]
    return replace(info, offers=(*info.offers, *more)) if more else info


def _understands(info: WorkerInfo, offer: Offer) -> bool:
    """Tell whether a worker, which may be of an earlier release, does all that a queue asks for."""
    return (info.wraps or offer.wrap is None) and (info.keeps_limits or not offer.has_limit)


def machine_capacity(info: WorkerInfo) -> Capacity:
    """Return what a machine has: what it found or was given, what its offers declare on top, and what was changed."""
    declared: dict[str, list[Supply]] = {}
    for offer in info.offers:
        for name, limit in offer.limits.items():
            if name not in info.given and name not in info.detecting:
                declared.setdefault(name, []).append(supply_of(limit))
    capacity = info.given | {name: union(*supplies) for name, supplies in declared.items()}
    return changed_capacity(capacity, info.devices)


def offer_ledgers(info: WorkerInfo, capacity: Capacity, before: Mapping[str, Ledger]) -> dict[str, Ledger]:
    """Return an empty ledger for each of a worker's offers; free slots keep their order."""
    ledgers: dict[str, Ledger] = {}
    for offer in info.offers:
        ledger = ledgers[offer.queue] = Ledger(bound(offer.limits, capacity))
        if offer.slots:
            known = before.get(offer.queue)
            ledger.slot_set = slot_set_of(
                offer.slots, offer.order, ledger.supply.get(SLOTS_OF), known.slot_set if known else None
            )
    return ledgers


def bound(limits: Limits, capacity: Capacity) -> Capacity:
    """Return what a queue may use of a machine: its limits, bound to what is there."""
    found: Capacity = {}
    for name, limit in limits.items():
        try:
            found[name] = bind(name, limit, capacity[name]) if name in capacity else supply_of(limit)
        except Refused:
            # Checked when the queue was made; a device has disappeared since. The other devices stay usable.
            found[name] = supply_of(limit)
    return found
