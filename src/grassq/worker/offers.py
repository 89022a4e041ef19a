"""The offers of one worker: kept in its home, sent to the broker on every connection."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq import atomic_files
from grassq.core.model import OFFERS_MAX, Offer, WorkerInfo
from grassq.core.names import DEFAULT_QUEUE
from grassq.core.planner.workers import machine_capacity
from grassq.core.resources.amounts import ONE, amount_text
from grassq.core.resources.capacity import Pool, Supply, bind, supply_of
from grassq.core.resources.device_changes import DeviceChanges, changed_capacity
from grassq.errors import Refused

FILE_NAME = "worker.json"
FILE_MAX = 16 << 20


class OfferFile(Struct, frozen=True):
    """The content of the file: the name that the worker took when it was new, its offers, and changed devices."""

    name: str
    offers: tuple[Offer, ...] = ()
    #: What people have changed of the devices.
    devices: DeviceChanges = {}


class Offers:
    """The queues of one worker, and the home that keeps them."""

    def __init__(self, file: OfferFile, home: str | None = None) -> None:
        """Keep changes in memory if `home` is None."""
        self._file = file
        self._home = home

    @property
    def name(self) -> str:
        """The name of the worker."""
        return self._file.name

    @property
    def all(self) -> tuple[Offer, ...]:
        """Every offer, with `default`, which always exists."""
        known = self._file.offers
        return known if any(offer.queue == DEFAULT_QUEUE for offer in known) else (Offer(DEFAULT_QUEUE), *known)

    def put(self, offer: Offer) -> None:
        """Add or replace an offer."""
        others = [known for known in self._file.offers if known.queue != offer.queue]
        if len(others) >= OFFERS_MAX:
            raise Refused(f"there are {OFFERS_MAX} queues already; delete one first")
        self._set(sorted((*others, offer), key=lambda known: known.queue))

    def remove(self, queue: str) -> None:
        """Remove the offer of a queue."""
        self._set(offer for offer in self._file.offers if offer.queue != queue)

    @property
    def devices(self) -> DeviceChanges:
        """What people have changed of the devices."""
        return self._file.devices

    def put_devices(self, devices: DeviceChanges) -> None:
        """Keep changes of the devices."""
        self._keep(replace(self._file, devices=devices))

    def _set(self, offers: Iterable[Offer]) -> None:
        self._keep(replace(self._file, offers=tuple(offers)))

    def _keep(self, file: OfferFile) -> None:
        if self._home is not None:
            save(self._home, file)
        self._file = file


def load(home: str, name: str) -> OfferFile:
    """Return the file of a home, or a new one under this name."""
    try:
        with open(os.path.join(home, FILE_NAME), "rb") as file:
            return msgspec.json.decode(file.read(FILE_MAX), type=OfferFile)
    except FileNotFoundError:
        return OfferFile(name)
    except (msgspec.MsgspecError, OSError) as error:
        raise Refused(
            f"{os.path.join(home, FILE_NAME)} cannot be read: {error}; move it away to start afresh"
        ) from error


def save(home: str, file: OfferFile) -> None:
    """Write the offers of a home to its file atomically, if they have changed."""
    path = os.path.join(home, FILE_NAME)
    content = msgspec.json.encode(file)
    if len(content) > FILE_MAX:
        # `load` could not read a longer file.
        raise Refused(f"the queues of this machine would need more than {FILE_MAX >> 20} MiB; delete some first")
    try:
        atomic_files.write_changed(home, FILE_NAME, content)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error


def check(offer: Offer, info: WorkerInfo) -> list[str]:
    """Refuse limits that the machine cannot meet; return notes about limits without effect."""
    others = tuple(known for known in info.offers if known.queue != offer.queue)
    capacity = machine_capacity(replace(info, offers=others))
    notes = []
    given = changed_capacity(info.given, {name: each for name, each in info.devices.items() if name in info.given})
    for name, limit in offer.limits.items():
        known = given.get(name)
        if known is None:
            declared = capacity.get(name)
            if declared is not None and isinstance(declared, Pool) != isinstance(limit, Pool):
                kind = "a pool" if isinstance(declared, Pool) else "devices"
                raise Refused(f"another queue declares {name} as {kind}; use the same kind here")
            continue
        bind(name, limit, known)
        has, asked = _amount(known), _amount(supply_of(limit))
        if asked > has:
            limit_text = f"the limit of {amount_text(asked)} has no effect"
            notes.append(f"this machine has only {amount_text(has)} {name}, so {limit_text}")
    return notes


def _amount(supply: Supply) -> int:
    return supply.amount if isinstance(supply, Pool) else len(supply.devices) * ONE
