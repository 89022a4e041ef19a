"""NVIDIA cards, asked of the driver in a process of its own: a driver that hangs or crashes must not take us along."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from grassq.core.resources import ONE, Capacity, Device, Devices

log = logging.getLogger(__name__)

DETECT_TIMEOUT_S = 20.0
OUTPUT_MAX = 1 << 20


def ask_driver() -> list[dict[str, object]]:
    """The cards the driver knows: index, memory in MiB, name and uuid. Empty without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    cards = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        cards.append({"id": str(index), "vram": memory.total >> 20, "uuid": pynvml.nvmlDeviceGetUUID(handle)})
    return cards


async def detect() -> Capacity:
    """The cards of this machine as capacity; nothing when there are none or the driver does not answer."""
    try:
        return await _detect()
    except (OSError, ValueError, KeyError) as error:
        log.warning("gpu_detection_failed error=%s", error)
        return {}


async def _detect() -> Capacity:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "grassq.worker.devices.nvidia",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(DETECT_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        log.warning("gpu_detection_timed_out seconds=%s", DETECT_TIMEOUT_S)
        process.kill()
        await process.wait()
        return {}
    if process.returncode != 0 or len(output) > OUTPUT_MAX:
        log.warning("gpu_detection_failed exit=%s", process.returncode)
        return {}
    devices = tuple(Device(str(card["id"]), ONE, int(card["vram"]) * ONE) for card in json.loads(output))
    return {"gpu": Devices(devices)} if devices else {}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask_driver()))
