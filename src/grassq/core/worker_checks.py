"""Check everything that a worker on another machine sends, when it comes in.

A worker may be in the wrong hands, and everybody sees what it says: in listings, logs and stories. Names, amounts and
counts that no worker of ours sends are refused, and the connection ends. A text for people is made printable and cut
instead, and attempts with impossible numbers are left out: a worker repeats its reports until they are acknowledged, so
a refusal would lock it out because of the words of one job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from grassq.core import states
from grassq.core.messages import Hello, Report, StorePosition
from grassq.core.model import ATTEMPT_MAX, ID_MAX, RESOURCES_MAX, AttemptId, Offer, WorkerInfo
from grassq.core.names import check_existing_name, check_mark, shown
from grassq.core.printable import printable
from grassq.core.protocol import READ_MAX, Answer, Ping, TicketKept, ToBroker, pack
from grassq.core.resources.amounts import ONE, UNITS_MAX, Allocation, check_resource_name
from grassq.core.resources.capacity import DeviceCount, DeviceIds, Devices, Limit, Pool
from grassq.core.resources.device_changes import ChangedDevices
from grassq.core.syntax.durations import DURATION_MAX_S
from grassq.core.syntax.resource_names import VRAM
from grassq.core.syntax.shell_lines import wrapper_words
from grassq.core.syntax.slots import DEVICES_MAX, check_device_id
from grassq.errors import BadInput

#: The longest word that only programs read: a boot id, a ticket, an incarnation.
WORD_CHARS_MAX = 200
LABELS_MAX = 64
#: How many words an answer may have.
ANSWER_WORDS_MAX = 100
#: How many attempts a hello may name; the rest is dropped.
ATTEMPTS_MAX = 100_000
#: The most bytes of a worker's description, and the most slots with their ids in all its queues.
INFO_BYTES_MAX = 2 << 20
SLOTS_TOTAL_MAX = 100_000
#: Bytes of the wrappers of all queues: to split them takes a second for each MiB, and other callers wait.
WRAPS_BYTES_MAX = 64 << 10
#: Every limit of a queue is compared with all devices of that resource, at every listing; this bounds the comparisons.
COMPARISONS_MAX = 500_000
#: Above the size of every log and the number of every commit.
NUMBER_MAX = 1 << 60
AMOUNT_MAX = UNITS_MAX * ONE


def checked(body: ToBroker) -> ToBroker:
    """Return a frame of a worker with its texts made printable; raise BadInput for what no worker of ours sends."""
    match body:
        case Hello():
            _check_info(body.info)
            _check_position(body.seen)
            return replace(body, held=_possible(body.held), unrecorded=_possible(body.unrecorded))
        case Report():
            return replace(body, event=_printable_fields(body.event))
        case Answer():
            return _checked_answer(body)
        case TicketKept(ticket):
            _check_word(ticket, "ticket")
        case Ping():
            pass
    return body


def usable(info: WorkerInfo) -> tuple[WorkerInfo, str | None]:
    """Return a worker as it was stored, without its queues and devices if it fails the checks; and why it fails."""
    try:
        _check_info(info)
    except BadInput as error:
        return WorkerInfo(info.name, printable(info.boot, WORD_CHARS_MAX), {}), str(error)
    return info, None


def _printable_fields(event: states.Report) -> states.Report:
    texts = {"error": event.error} if isinstance(event, states.Exited) else {"why": getattr(event, "why", None)}
    changed = {name: printable(text) for name, text in texts.items() if text is not None}
    return replace(event, **changed) if changed else event


def _checked_answer(answer: Answer) -> Answer:
    if len(answer.data) > READ_MAX:
        raise BadInput(f"an answer has {len(answer.data):,} bytes; at most {READ_MAX:,} are sent")
    if not 0 <= answer.amount <= NUMBER_MAX:
        raise BadInput(f"an answer has the amount {answer.amount}; it must be from 0 to {NUMBER_MAX}")
    if len(answer.words) > ANSWER_WORDS_MAX:
        raise BadInput(f"an answer has {len(answer.words):,} words; at most {ANSWER_WORDS_MAX} are sent")
    error = None if answer.error is None else printable(answer.error)
    return replace(answer, words=tuple(map(printable, answer.words)), error=error)


def _check_position(seen: StorePosition | None) -> None:
    if seen is None:
        return
    _check_word(seen.incarnation, "incarnation")
    _check_word(seen.proof, "proof")
    if not 0 <= seen.commit <= NUMBER_MAX or not 0 <= seen.highest_id <= ID_MAX:
        raise BadInput(f"no store has commit {seen.commit} and id {seen.highest_id}")


def _possible(attempts: Sequence[AttemptId]) -> tuple[AttemptId, ...]:
    """Return the attempts whose numbers some store can have given."""
    return tuple([each for each in attempts[:ATTEMPTS_MAX] if 0 < each[0] <= ID_MAX and 0 < each[1] <= ATTEMPT_MAX])


def _check_info(info: WorkerInfo) -> None:
    if (size := len(pack(info))) > INFO_BYTES_MAX:
        raise BadInput(f"the worker's description has {size:,} bytes; at most {INFO_BYTES_MAX:,} are taken")
    _check_word(info.boot, "boot id")
    _check_word(info.version, "version")
    if len(info.labels) > LABELS_MAX:
        raise BadInput(f"the worker has {len(info.labels):,} labels; at most {LABELS_MAX} are taken")
    for label in info.labels:
        check_mark(label, "label")
    _check_resources(info.detecting)
    _check_limits(info.given)
    _check_used(info.used_by_others)
    _check_devices(info.devices)
    if (short := info.disk_short) is not None and not all(
        0 <= each <= NUMBER_MAX for each in (short.free, short.floor)
    ):
        raise BadInput(f"no disk has {short.free} bytes free and a floor of {short.floor}")
    if (size := sum(len(offer.wrap or b"") for offer in info.offers)) > WRAPS_BYTES_MAX:
        raise BadInput(
            f"the wrappers of the worker's queues have {size:,} bytes; at most {WRAPS_BYTES_MAX:,} are taken"
        )
    queues: set[str] = set()
    for offer in info.offers:
        check_existing_name(offer.queue, "queue name")
        if offer.queue in queues:
            raise BadInput(f"the worker offers queue {offer.queue} twice")
        queues.add(offer.queue)
        _check_limits(offer.limits)
        _check_slots(offer)
        if offer.wrap is not None:
            wrapper_words(offer.wrap, f"the wrapper of queue {offer.queue}")
        for limit_s in (offer.time_limit_s, offer.max_time_limit_s):
            if limit_s is not None and not 1 <= limit_s <= DURATION_MAX_S:
                raise BadInput(f"queue {offer.queue} has a time limit of {limit_s} s: no queue of ours has that")
    if (slots := sum(1 + len(slot.ids) for offer in info.offers for slot in offer.slots)) > SLOTS_TOTAL_MAX:
        raise BadInput(f"the worker's queues have {slots:,} slots and ids; at most {SLOTS_TOTAL_MAX:,} are taken")
    if (comparisons := _comparisons(info)) > COMPARISONS_MAX:
        raise BadInput(f"the worker's queues and devices are too many: {comparisons:,} pairs of {COMPARISONS_MAX:,}")


def _comparisons(info: WorkerInfo) -> int:
    """Return the number of limits times the number of devices, summed over all resources."""
    times: Counter[str] = Counter()
    ids: dict[str, set[str]] = {}
    counted: dict[str, int] = {}
    added = {name: Devices(changed.added) for name, changed in info.devices.items()}
    every: list[Mapping[str, Limit]] = [info.given, added, *(offer.limits for offer in info.offers)]
    for limits in every:
        for name, limit in limits.items():
            times[name] += 1
            if isinstance(limit, DeviceCount):
                counted[name] = max(counted.get(name, 0), limit.n)
            else:
                ids.setdefault(name, set()).update(_ids(limit))
    return sum(count * (1 + counted.get(name, 0) + len(ids.get(name, ()))) for name, count in times.items())


def _check_slots(offer: Offer) -> None:
    for slot in offer.slots:
        if not slot.name.isprintable():
            raise BadInput(f"{shown(slot.name)} cannot be the name of a slot: it has control characters")
        _check_ids("slot", slot.ids)


def _check_limits(limits: Mapping[str, Limit]) -> None:
    _check_resources(limits)
    for name, limit in limits.items():
        if isinstance(limit, Pool):
            _check_amount(name, limit.amount)
        elif isinstance(limit, Devices):
            for device in limit.devices:
                _check_amount(name, device.worth)
                _check_amount(VRAM, device.vram)
        _check_ids(name, _ids(limit))


def _check_devices(devices: Mapping[str, ChangedDevices]) -> None:
    """Check the devices that people have added, removed and drained on a worker."""
    _check_limits({name: Devices(changed.added) for name, changed in devices.items()})
    for name, changed in devices.items():
        _check_ids(name, changed.removed)
        _check_ids(name, changed.drained)


def _check_used(used: Allocation) -> None:
    _check_resources([name for name in used if name != VRAM])
    for name, amounts in used.items():
        by_device = amounts if isinstance(amounts, dict) else {}
        if len(by_device) > DEVICES_MAX:
            raise BadInput(f"{name}: {len(by_device):,} devices are in use; a machine has at most {DEVICES_MAX:,}")
        _check_ids(name, list(by_device))
        for amount in by_device.values() if isinstance(amounts, dict) else (amounts,):
            _check_amount(name, amount)


def _check_resources(names: Collection[str]) -> None:
    if len(names) > RESOURCES_MAX:
        raise BadInput(f"{len(names):,} resources are named at once; at most {RESOURCES_MAX} are taken")
    for name in names:
        if check_resource_name(name) != name or name == VRAM:
            raise BadInput(f"{shown(name)} cannot be a resource of a machine")


def _ids(limit: Limit) -> Sequence[str]:
    """Return the ids of the devices that a limit or a supply names."""
    if isinstance(limit, Devices):
        return [device.id for device in limit.devices]
    return limit.ids if isinstance(limit, DeviceIds) else ()


def _check_ids(name: str, ids: Sequence[str]) -> None:
    for id_ in ids:
        check_device_id(name, id_)
    if len(set(ids)) != len(ids):
        raise BadInput(f"{name}: a device is named twice")


def _check_amount(name: str, amount: int) -> None:
    if not 0 <= amount <= AMOUNT_MAX:
        raise BadInput(f"{name}: the amount {amount} millionths is not between 0 and {UNITS_MAX:,} units")


def _check_word(text: str, what: str) -> None:
    if len(text) > WORD_CHARS_MAX or not (text.isascii() and text.isprintable()):
        raise BadInput(f"{shown(text)} cannot be a {what}: printable ASCII, at most {WORD_CHARS_MAX} characters")
