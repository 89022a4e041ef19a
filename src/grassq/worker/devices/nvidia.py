"""NVIDIA cards. The driver is asked in a separate process, because it may hang or crash."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterable

from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Device, Devices
from grassq.worker.devices.detector import Detector

log = logging.getLogger(__name__)

DETECT_TIMEOUT_S = 20.0
OUTPUT_MAX = 1 << 20
SAID_MAX = 64


def ask_driver() -> list[dict[str, object]]:
    """Return index, memory in MiB and uuid of each card, none without a driver; raise NVMLError if it fails."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return []
    cards = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            cards.append({"id": str(index), "vram": memory.total >> 20, "uuid": pynvml.nvmlDeviceGetUUID(handle)})
        except pynvml.NVMLError as error:
            # Without a card that fell off the bus, the others still count.
            sys.stderr.write(f"card {index} is left out: {error}\n")
    return cards


async def detect() -> Capacity:
    """Return the cards of this machine; nothing if there are none or the driver does not answer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "grassq.worker.devices.nvidia",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DETECT_TIMEOUT_S):
            output, said = await process.communicate()
    except TimeoutError:
        log.warning("gpu_detection_timed_out seconds=%s", DETECT_TIMEOUT_S)
        process.kill()
        await process.wait()
        return {}
    lines = said.decode("utf-8", "replace").splitlines()[-SAID_MAX:]
    if process.returncode != 0 or len(output) > OUTPUT_MAX:
        log.warning("gpu_detection_failed exit=%s said=%s", process.returncode, lines[-1:])
        return {}
    for line in lines:
        log.warning("gpu_detection_incomplete said=%s", line)
    return capacity_of([(str(card["id"]), int(card["vram"])) for card in json.loads(output)])


def capacity_of(cards: Iterable[tuple[str, int]]) -> Capacity:
    """Return cards, each with its index and its memory in MiB, as resources; nothing if there are none."""
    devices = tuple(Device(index, ONE, vram * ONE) for index, vram in cards)
    return {"gpu": Devices(devices)} if devices else {}


NVIDIA = Detector(
    frozenset({"gpu"}),
    detect,
    variables=(("gpu", b"CUDA_VISIBLE_DEVICES"),),
    # Devices are numbered as in NVML, so CUDA must count the same way.
    beside=((b"CUDA_DEVICE_ORDER", b"PCI_BUS_ID"),),
)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask_driver()))
