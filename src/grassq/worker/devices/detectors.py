"""Every detector of this machine, built in or installed, and the variables for jobs that hold devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points

from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.core.resources.capacity import Capacity
from grassq.core.syntax.options import is_resource_name
from grassq.worker.devices import host, nvidia
from grassq.worker.devices.detector import Detector

log = logging.getLogger(__name__)

DETECTORS = (host.HOST, nvidia.NVIDIA)
#: The entry point group for detectors of other packages, and how many are loaded; the rest is logged and skipped.
GROUP = "grassq.devices"
PLUGINS_MAX = 16
NAMES_MAX = 16
#: The time limit of each detector.
DETECT_TIMEOUT_S = 30.0


class DeviceVariables(Struct, frozen=True):
    """The variables that tell a job which devices it holds."""

    #: By resource: the variables that list its devices, and other variables.
    listing: dict[bytes, tuple[bytes, ...]]
    beside: dict[bytes, Pairs]
    #: Jobs do not inherit these.
    hidden: frozenset[bytes]

    def of(self, resource: bytes, ids: bytes) -> dict[bytes, bytes]:
        """Return the variables for devices of a resource, with their ids joined by commas."""
        return {**dict.fromkeys(self.listing.get(resource, ()), ids), **dict(self.beside.get(resource, ()))}


def variables_of(detectors: Iterable[Detector]) -> DeviceVariables:
    """Return the variables of these detectors."""
    listing: dict[bytes, tuple[bytes, ...]] = {}
    beside: dict[bytes, Pairs] = {}
    for detector in detectors:
        for resource, variable in detector.variables:
            name = resource.encode()
            listing[name] = (*listing.get(name, ()), variable)
            beside[name] = (*beside.get(name, ()), *detector.beside)
    return DeviceVariables(listing, beside, frozenset(v for variables in listing.values() for v in variables))


def installed(points: Iterable[EntryPoint] | None = None) -> Iterator[Detector]:
    """Load the detectors of other packages; log and skip a broken one. Takes some 20 ms."""
    found = sorted(entry_points(group=GROUP) if points is None else points, key=lambda point: point.name)
    taken = {name for detector in DETECTORS for name in detector.names}
    for point in found[PLUGINS_MAX:]:
        log.error("detector_left_out name=%s why=more than %s are installed", point.name, PLUGINS_MAX)
    for point in found[:PLUGINS_MAX]:
        try:
            detector = _checked(point.load(), taken)
        except Exception as error:  # code of another package may raise anything
            log.error("detector_left_out name=%s why=%s: %s", point.name, type(error).__name__, error)
            continue
        taken |= detector.names
        yield detector


def _checked(detector: object, taken: set[str]) -> Detector:
    if not isinstance(detector, Detector):
        raise TypeError(f"it is not a Detector but {type(detector).__name__}")
    if not 0 < len(detector.names) <= NAMES_MAX:
        raise ValueError(f"it names {len(detector.names)} resources; 1 to {NAMES_MAX} are allowed")
    for name in detector.names:
        if not is_resource_name(name) or name != name.lower() or name in taken:
            raise ValueError(f"it names {name!r}, which is not a resource name, or belongs to another detector")
    return detector


async def found_by(detector: Detector) -> Capacity:
    """Return what a detector finds of the resources it names; nothing if it fails or takes too long."""
    try:
        async with asyncio.timeout(DETECT_TIMEOUT_S):
            found = await detector.detect()
        return {name: supply for name, supply in found.items() if name in detector.names}
    except Exception as error:  # code of another package may raise anything
        log.error("detection_failed names=%s why=%s: %s", ",".join(detector.names), type(error).__name__, error)
        return {}
