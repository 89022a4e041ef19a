"""Processors and memory of this machine."""

from __future__ import annotations

import os

import psutil

from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Pool

#: Where a container's memory limit is told: cgroup v2, then v1.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def detect() -> Capacity:
    """The processors we may use, and the memory there is, in MiB."""
    memory = min([psutil.virtual_memory().total, *_limits()])
    return {"cpu": Pool(len(os.sched_getaffinity(0)) * ONE), "mem": Pool((memory >> 20) * ONE)}


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
