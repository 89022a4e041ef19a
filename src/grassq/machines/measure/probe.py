"""What a machine has and what is free of it, read from one report of the far side (`probe.sh`).

The report may be a lie or garbage: every number has a bound, every text is made printable, and a line that cannot be
read counts as not there.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import resources

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.resources.amounts import UNITS_MAX
from grassq.core.resources.capacity import Capacity
from grassq.errors import GrassError
from grassq.machines.measure.gpu_probe import GpuReport, parse_gpus
from grassq.machines.measure.report_lines import REPORT_S, ReportLines, number, read_report, text
from grassq.machines.transport import LinkLost, Transport
from grassq.worker.devices import host, nvidia
from grassq.worker.devices.detectors import DeviceVariables, variables_of

#: How long a session has to end after its report.
END_S = 5.0
#: The most processors that are believed.
CPUS_MAX = 65_536
KIB_MAX = UNITS_MAX * 1024
#: The most tools that a report names.
TOOLS_MAX = 64
#: The variables that name devices to ROCm. Both mean the same to it, and some programs demand that both are equal.
_ROCM_VARIABLES = (b"HIP_VISIBLE_DEVICES", b"CUDA_VISIBLE_DEVICES")


class BadProbe(GrassError):
    """A machine's report about itself cannot be used; the message says why."""


class CpuSample(Struct, frozen=True):
    """Ticks since the boot of all processors together: those spent on something, and all."""

    busy: int
    all: int


class Disk(Struct, frozen=True):
    """A file system: its free space in MiB, where it is mounted, and its size in MiB."""

    free_mib: int
    mounted: str
    total_mib: int = 0


class MachineProbe(Struct, frozen=True, kw_only=True):
    """What a report says of a machine."""

    boot: str
    uptime_s: float
    #: The machine's clock when it wrote the report, in seconds since the epoch; whole seconds where it knows no parts.
    clock: float | None
    #: The processors that a job may use, and those of the machine.
    cpus: int
    cores: int
    samples: tuple[CpuSample, ...]
    mem_total_mib: int
    mem_free_mib: int
    #: The memory of our own jobs, which is not free.
    own_mib: int = 0
    #: The processors that programs of others keep busy.
    others_cores: float = 0.0
    #: None if the drivers were not asked.
    gpus: GpuReport | None = None
    #: The bytes that the login shell printed before the report.
    noise: int = 0
    #: The file system that the far home is on, or will be on.
    disk: Disk | None = None
    #: What only a full report has.
    user: str = ""
    login_shell: str = ""
    sh: str = ""
    tools: frozenset[str] = frozenset()
    python: str | None = None
    rsync: str | None = None
    is_writable: bool | None = None
    linger: bool | None = None
    kills_at_logout: bool | None = None
    removes_ipc: bool | None = None


def ask(
    transport: Transport,
    far_home: bytes,
    *,
    everything: bool = True,
    gpus: bool = True,
    within_s: float = REPORT_S,
) -> MachineProbe:
    """Ask a machine what it has and what is free there; LinkLost, or BadProbe.

    Nothing need be installed there. Our own jobs are those below the far home, which is an absolute path, or one below
    the home directory. Without `everything`, what hardly changes is left out; without `gpus`, no driver is asked.
    """
    stream = transport.open("sh")
    try:
        stream.send_input(script(far_home, everything=everything, gpus=gpus), within_s)
        report, noise = read_report(stream, within_s)
        with suppress(LinkLost):
            # A session that is only closed here is not at once free again there.
            stream.finish(END_S)
        return replace(parse(report), noise=noise)
    finally:
        stream.close()


def script(far_home: bytes, *, everything: bool, gpus: bool) -> bytes:
    """Return the commands for a POSIX shell that print a report."""
    home = shlex.quote(os.fsdecode(far_home))
    words = [
        home if far_home.startswith(b"/") else f'"$HOME"/{home}',
        *(["all"] if everything else []),
        *(["gpus"] if gpus else []),
    ]
    return _functions() + os.fsencode(f"LC_ALL=C; export LC_ALL; umask 077; far_probe {' '.join(words)}\n")


@cache
def _functions() -> bytes:
    return resources.files(__package__).joinpath("probe.sh").read_bytes()


def parse(report: bytes) -> MachineProbe:
    """Read a report; BadProbe if it does not even say the memory and the processors."""
    lines = ReportLines(report)
    cores = lines.number("cores", CPUS_MAX) or 0
    cpus = _cpus(lines, cores)
    memory = _memory(lines)
    uptime = lines.seconds("uptime")
    if cpus == 0 or memory is None or uptime is None:
        raise BadProbe("the machine does not say which processors and memory it has; is /proc mounted there?")
    return MachineProbe(
        boot=lines.text("boot"),
        uptime_s=uptime,
        clock=lines.seconds("clock"),
        cpus=cpus,
        cores=max(cores, cpus),
        samples=tuple(_samples(lines.all("stat")))[:2],
        mem_total_mib=memory[0],
        mem_free_mib=memory[1],
        own_mib=(lines.number("own_kib", KIB_MAX) or 0) // 1024,
        others_cores=(lines.number("others", 1000) or 0) * cores / 1000,
        gpus=parse_gpus(lines) if lines.has("asked_gpus") else None,
        user=lines.text("user"),
        login_shell=lines.text("login_shell"),
        sh=lines.text("sh"),
        tools=frozenset(text(each.partition(" ")[0]) for each in lines.all("tool")[:TOOLS_MAX]),
        python=lines.version("python"),
        rsync=lines.version("rsync"),
        disk=_disk(lines.first("df")),
        is_writable=lines.is_yes("writable"),
        linger=lines.is_yes("linger"),
        kills_at_logout=lines.is_yes("KillUserProcesses"),
        removes_ipc=lines.is_yes("RemoveIPC"),
    )


def capacity_of(probe: MachineProbe) -> Capacity:
    """Return what a machine has, in the words of the detectors of this machine."""
    gpus = () if probe.gpus is None else probe.gpus.gpus
    cards = [(str(gpu.index), gpu.total_mib or 0) for gpu in gpus if not gpu.is_prohibited]
    return host.capacity_of(probe.cpus, probe.mem_total_mib) | nvidia.capacity_of(cards)


def in_words(probe: MachineProbe) -> str:
    """Return what a machine has as a person says it: 64 cpus, 512 GiB of memory, 8 gpus (A100)."""
    parts = [_count(probe.cpus, "cpu"), f"{probe.mem_total_mib / 1024:,.1f} GiB of memory"]
    gpus = () if probe.gpus is None else probe.gpus.gpus
    if gpus:
        kinds = ", ".join(sorted({gpu.name for gpu in gpus}))
        parts.append(f"{_count(len(gpus), 'gpu')} ({kinds})")
    if probe.gpus is not None and probe.gpus.fault is not None:
        parts.append(f"gpus: {probe.gpus.fault}")
    return ", ".join(parts)


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def variables_for(gpus: GpuReport | None) -> DeviceVariables:
    """Return the variables that tell a job which of these devices it holds."""
    if gpus is not None and gpus.is_amd:
        return DeviceVariables({b"gpu": _ROCM_VARIABLES}, {}, frozenset(_ROCM_VARIABLES))
    return variables_of([nvidia.NVIDIA])


def free_cores(probe: MachineProbe) -> float:
    """Return how many processors had nothing to do between the two samples; all where there are no two."""
    first, last = (*probe.samples, CpuSample(0, 0), CpuSample(0, 0))[:2]
    if last.all <= first.all:
        return float(probe.cpus)
    share = (last.busy - first.busy) / (last.all - first.all)
    return round(min(float(probe.cpus), probe.cores * (1.0 - min(1.0, max(0.0, share)))), 2)


def free_report(probe: MachineProbe) -> dict[str, object]:
    """Return what is free now as a document."""
    gpus = probe.gpus or GpuReport()
    return {
        "cpus": probe.cpus,
        "free_cores": free_cores(probe),
        "mem_total_mib": probe.mem_total_mib,
        "mem_free_mib": probe.mem_free_mib,
        "gpu_fault": gpus.fault,
        "gpus": [
            {
                "index": gpu.index,
                "name": gpu.name,
                "mem_total_mib": gpu.total_mib,
                "mem_free_mib": gpu.free_mib,
                "utilisation": gpu.utilisation,
            }
            for gpu in gpus.gpus
        ],
    }


def _samples(lines: Iterable[str]) -> Iterator[CpuSample]:
    """Read lines of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; guests count as user."""
    for line in lines:
        ticks = [number(each, 1 << 62) for each in line.split()[1:9]]
        known = [each for each in ticks if each is not None]
        if len(known) == len(ticks) >= 4:
            yield CpuSample(sum(known) - sum(known[3:5]), sum(known))


def _cpus(lines: ReportLines, cores: int) -> int:
    """Return how many processors a job may use: those it may run on, and no more than the quotas of its groups."""
    usable = _listed(lines.first("allowed").partition(":")[2]) or cores
    for line in lines.all("group_cpu"):
        quota = [number(each, 1 << 62) for each in line.split()]
        if len(quota) == 2 and quota[0] and quota[1]:
            usable = min(usable, math.ceil(quota[0] / quota[1]))
    return min(usable, CPUS_MAX)


def _listed(ranges: str) -> int:
    """Return how many processors a list such as 0-3,8 names."""
    count = 0
    for part in ranges.strip().split(",")[:CPUS_MAX]:
        low, dash, high = part.partition("-")
        first, last = number(low, CPUS_MAX), number(high if dash else low, CPUS_MAX)
        if first is not None and last is not None and first <= last:
            count += last - first + 1
    return count


def _memory(lines: ReportLines) -> tuple[int, int] | None:
    """Return all and free memory in MiB: those of the machine, and no more than the limits of the groups leave."""
    kib: dict[str, int] = {}
    for line in lines.all("meminfo"):
        name, _, rest = line.partition(":")
        if (size := number(rest.strip().partition(" ")[0], KIB_MAX)) is not None:
            kib[name] = size
    total = all_kib = kib.get("MemTotal", 0)
    # A kernel before 3.14 does not say what is available.
    free = kib.get("MemAvailable", sum(kib.get(name, 0) for name in ("MemFree", "Buffers", "Cached")))
    for line in lines.all("group_mem"):
        limit, used, cached = (*[number(each, 1 << 63) for each in line.split()[:3]], None, None, None)[:3]
        if limit is not None and limit >> 10 < all_kib:
            total = min(total, limit >> 10)
            free = min(free, max(0, limit - max(0, (used or 0) - (cached or 0))) >> 10)
    return (total >> 10, min(free, total) >> 10) if total >= 1024 else None


def _disk(line: str) -> Disk | None:
    """Read a line of `df -Pk`: device, blocks, used, free, share, folder."""
    fields = line.split(None, 5)
    free = number(fields[3], KIB_MAX) if len(fields) == 6 else None
    return None if free is None else Disk(free // 1024, text(fields[5]), (number(fields[1], KIB_MAX) or 0) // 1024)
