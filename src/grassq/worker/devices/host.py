"""Processors and memory of this machine."""

from __future__ import annotations

import os

import psutil

from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Pool
from grassq.worker.devices.detector import Detector

#: Files with a container's memory limit: cgroup v2, then v1.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


async def detect() -> Capacity:
    """Return the processors this process may use, and the memory of the machine in MiB."""
    memory = min([psutil.virtual_memory().total, *_limits()])
    return capacity_of(len(os.sched_getaffinity(0)), memory >> 20)


def capacity_of(cpus: int, mem_mib: int) -> Capacity:
    """Return a number of processors, and memory in MiB, as resources."""
    return {"cpu": Pool(cpus * ONE), "mem": Pool(mem_mib * ONE)}


def _limits() -> list[int]:
    found = []
    for path in _LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read(64).strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return found


HOST = Detector(frozenset({"cpu", "mem"}), detect, quick=True)
