"""What programs outside of Grass use of a machine, from one look to the next.

Small changes and short pauses of others change nothing, so that a worker does not describe itself anew at every look.
A card that others use gets no job at all. Of a card that they hardly use, and of the machine itself, the memory counts.
Processors count if others keep them busy for some looks: a job that others slow down runs on, so a little is tolerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import Capacity, Devices, union
from grassq.core.resources.disk_floor import DiskFloor, shortage
from grassq.machines.measure.gpu_probe import GpuProbe
from grassq.machines.measure.probe import MachineProbe, capacity_of, variables_for
from grassq.worker.machine import Detected

#: How often a machine is asked what others use, in seconds.
PROBE_S = 10.0
#: Others use a card if they have this share of its memory; with less than the smaller share they may have left it.
BUSY_MEMORY, CALM_MEMORY = 0.10, 0.08
#: The same for the share of time in which the card computes, in percent.
BUSY_UTILISATION, CALM_UTILISATION = 25, 10
#: A program that computes on a card has at least this much memory there; less belongs to the driver. Without such a
#: program the utilisation says nothing: some drivers say 100 % of an idle card that they have just woken up.
CONTEXT_MIB = 100
#: At how many looks in a row others must have left a card before it counts as free.
CALM_LOOKS = 3
#: How many looks in a row must agree that others use more processors, or fewer, and how many count as none.
CORES_LOOKS = 3
CORES_TOLERATED = 2
#: At how many looks in a row a driver must fail before its cards count as in use.
FAULT_LOOKS = 2
#: A driver that failed is asked again after this time, which doubles at each failure up to the longest.
FAULT_PAUSE_S, FAULT_PAUSE_MAX_S = 10.0, 600.0
#: Amounts are rounded up to steps: this part of all the memory, and at least this number of MiB.
STEPS, STEP_MIN_MIB = 50, 256


class OthersUse(Struct, frozen=True):
    """What others use at one look, and what must be known of it at the next look."""

    mem_mib: int = 0
    #: The processors that count as used, and those that were in use at the last looks.
    cpus: int = 0
    cores: tuple[float, ...] = ()
    #: By the index of a card that others hardly use: their memory there.
    vram_mib: dict[int, int] = {}
    #: The cards that others use: at how many looks in a row they seemed to have left it.
    busy: dict[int, int] = {}
    #: At how many looks in a row the driver failed.
    faults: int = 0

    def allocation(self, capacity: Capacity) -> Allocation:
        """Return the same as amounts of a machine's resources."""
        supply = capacity.get("gpu")
        worths = {device.id: device.worth for device in supply.devices} if isinstance(supply, Devices) else {}
        busy = {str(index): worths[str(index)] for index in sorted(self.busy) if str(index) in worths}
        vram = {str(index): mib * ONE for index, mib in sorted(self.vram_mib.items()) if mib and str(index) in worths}
        found: Allocation = {"gpu": busy, "vram": vram, "mem": self.mem_mib * ONE, "cpu": self.cpus * ONE}
        return {name: used for name, used in found.items() if used}


def others_use(probe: MachineProbe, cards: Collection[int], before: OthersUse) -> OthersUse:
    """Return what others use, of a machine that is known to have these cards."""
    mem = _stepped(
        max(0, probe.mem_total_mib - probe.mem_free_mib - probe.own_mib), before.mem_mib, probe.mem_total_mib
    )
    # Processors that our jobs may not run on are the first that others use.
    cores = (*before.cores, probe.others_cores - (probe.cores - probe.cpus))[-CORES_LOOKS:]
    host = replace(before, mem_mib=mem, cores=cores, cpus=_cpus(cores, before.cpus))
    if probe.gpus is None:
        return host
    if probe.gpus.fault is not None:
        faults = before.faults + 1
        gone = dict.fromkeys(cards, 0) if faults >= FAULT_LOOKS else before.busy
        return replace(host, busy=gone, faults=faults)
    found = {gpu.index: gpu for gpu in probe.gpus.gpus}
    # A card that is not listed any more has fallen off the bus, or is being reset.
    busy = {index: 0 for index in cards if index not in found}
    vram: dict[int, int] = {}
    for index, gpu in found.items():
        looks = _calm_looks(gpu, before.busy.get(index))
        if looks is not None:
            busy[index] = looks
        else:
            used = max(0, _foreign_mib(gpu) - CONTEXT_MIB)
            vram[index] = _stepped(used, before.vram_mib.get(index, 0), gpu.total_mib or 0)
    return replace(host, vram_mib=vram, busy=busy, faults=0)


def _cpus(cores: tuple[float, ...], before: int) -> int:
    """Return how many processors count as used: as before, unless all of the last looks say more, or all say less."""
    if len(cores) < CORES_LOOKS:
        return before
    least, most = (max(0, math.floor(found) - CORES_TOLERATED) for found in (min(cores), max(cores)))
    return min(max(before, least), most)


def _calm_looks(gpu: GpuProbe, before: int | None) -> int | None:
    """Return at how many looks in a row a card seemed free of others that use it; None if it is free of them."""
    foreign, total = _foreign_mib(gpu), gpu.total_mib
    has_unknown = any(process.mib is None or total is None for process in gpu.processes if not process.is_own)
    share = foreign / total if total else 0.0
    # While a job of ours computes there, its work cannot be told from that of others.
    tells = not gpu.is_own and (gpu.used_mib is None or foreign >= CONTEXT_MIB)
    utilisation = gpu.utilisation or 0 if tells else 0
    if has_unknown or share >= BUSY_MEMORY or utilisation >= BUSY_UTILISATION:
        return 0
    if before is None:
        return None
    if share >= CALM_MEMORY or utilisation >= CALM_UTILISATION:
        return 0
    return before + 1 if before + 1 < CALM_LOOKS else None


def _foreign_mib(gpu: GpuProbe) -> int:
    """Return the memory of a card that is not that of our own jobs, as far as this can be told."""
    listed = sum(process.mib or 0 for process in gpu.processes if not process.is_own)
    own = [process.mib for process in gpu.processes if process.is_own]
    known = [mib for mib in own if mib]
    if gpu.used_mib is None or (gpu.is_own and (not own or len(known) < len(own))):
        # In a container the driver may list our processes without their memory, or not at all.
        return listed
    return max(listed, gpu.used_mib - sum(known))


def _stepped(used: int, before: int, total: int) -> int:
    """Round an amount up to a step, but keep the one from before if the amount is at most little smaller."""
    step = max(STEP_MIN_MIB, total // STEPS)
    if max(0, before - step - step // 2) < used <= before:
        return before
    return -(-used // step) * step


class AskMachine(Protocol):
    """Asks a machine, as `probe.ask` does."""

    def __call__(self, *, everything: bool, gpus: bool) -> MachineProbe:
        """Return what the machine says."""


class MachineWatch:
    """Looks at a machine again and again, and tells what has changed for its worker. Used on one thread at a time."""

    def __init__(self, ask: AskMachine, clock: Callable[[], float], floor: DiskFloor | None = None) -> None:
        self._ask = ask
        self._clock = clock
        self._floor = floor or DiskFloor()
        self._gpus_at = clock()
        self._capacity: Capacity = {}
        self._use = OthersUse()
        self._told: Detected | None = None
        self._may_appear = False
        #: The first report; None before it.
        self.first: MachineProbe | None = None
        #: The variables that name the machine's devices to jobs.
        self.variables = variables_for(None)

    def look(self) -> Detected | None:
        """Ask the machine once; return what its worker must say now, None if nothing has changed."""
        now = self._clock()
        probe = self._ask(everything=self.first is None, gpus=now >= self._gpus_at)
        self.first = self.first or probe
        if probe.gpus is not None and probe.gpus.gpus:
            self.variables = variables_for(probe.gpus)
        has_failed = probe.gpus is not None and probe.gpus.fault is not None
        found = capacity_of(probe)
        if "gpu" in found and "gpu" in self._capacity:
            # Cards that are away for a while are still the machine's: they count as used.
            found["gpu"] = union(self._capacity["gpu"], found["gpu"])
        self._capacity = {**self._capacity, **found}
        self._use = others_use(probe, self._cards(), self._use)
        if has_failed:
            pause_s = FAULT_PAUSE_S * 2 ** min(self._use.faults, 10)
            self._gpus_at = now + min(FAULT_PAUSE_MAX_S, pause_s)
        if probe.gpus is not None:
            # The driver of cards that were never seen may only be slow; without a driver there is nothing to wait for.
            self._may_appear = has_failed and not probe.gpus.has_no_driver and "gpu" not in self._capacity
        looked_for = frozenset({"gpu"}) if self._may_appear else frozenset[str]()
        short = None if self._told is None else self._told.disk_short
        if (disk := probe.disk) is not None:
            short = shortage(self._floor, disk.mounted, disk.free_mib << 20, disk.total_mib << 20, short)
        told = Detected(self._capacity, looked_for, self._use.allocation(self._capacity), short)
        if told == self._told:
            return None
        self._told = told
        return told

    def _cards(self) -> list[int]:
        supply = self._capacity.get("gpu")
        return [int(device.id) for device in supply.devices] if isinstance(supply, Devices) else []
