"""The devices of a machine as nvidia-smi, rocm-smi or amd-smi describe them, and the processes that use each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.resources.amounts import UNITS_MAX
from grassq.machines.measure.report_lines import PID_MAX, ReportLines, number, numbers, text

#: The most devices that are believed; others are left out.
GPUS_MAX = 256
#: The exit codes by which the far side says that a tool did not end, and that there was no folder for its output.
TIMED_OUT = 124
NO_FOLDER = 125
#: The exit codes by which nvidia-smi says that there is no device, no driver, or no library of the driver.
NO_DRIVER = (6, 9, 12)
#: The tools by the word of their lines in a report.
TOOLS = {"nvidia": "nvidia-smi", "rocm": "rocm-smi", "amd": "amd-smi"}
#: The number of fields that are asked of nvidia-smi; an old driver knows only the first ones.
FIELDS, FIELDS_OLD = 8, 6


class GpuProcess(Struct, frozen=True):
    """A process that uses a device: its memory there in MiB, if that is known."""

    pid: int
    mib: int | None
    is_own: bool


class GpuProbe(Struct, frozen=True):
    """One device as its driver describes it; None stands for what the driver does not say."""

    index: int
    uuid: str
    name: str
    total_mib: int | None
    used_mib: int | None
    #: The share of time in which the device computed, in percent.
    utilisation: int | None
    is_mig: bool = False
    #: The device is set so that no program may compute on it.
    is_prohibited: bool = False
    processes: tuple[GpuProcess, ...] = ()
    #: A job of our own was given this device, or uses it.
    is_own: bool = False

    @property
    def free_mib(self) -> int | None:
        """The memory that no process has."""
        return None if self.total_mib is None or self.used_mib is None else max(0, self.total_mib - self.used_mib)


class GpuReport(Struct, frozen=True):
    """The devices of a machine, by index."""

    gpus: tuple[GpuProbe, ...] = ()
    is_amd: bool = False
    #: Why the devices are not known, in words; None if they are, or if there is no tool that knows them.
    fault: str | None = None
    #: The tool says that there is no driver, or no device.
    has_no_driver: bool = False


def parse_gpus(lines: ReportLines) -> GpuReport:
    """Read what a report says about devices."""
    own = frozenset(numbers(lines.all("own"), PID_MAX))
    is_amd = False
    found = _nvidia(lines, own)
    if not found and (lines.has("rocm") or lines.has("amd")):
        found, is_amd = _amd(lines, own), True
    given = {index for line in lines.all("own_gpu") for index in numbers(line.split(","), GPUS_MAX)}
    gpus = tuple(
        replace(gpu, is_own=index in given or any(process.is_own for process in gpu.processes))
        for index, gpu in sorted(found.items())
    )
    has_no_driver = lines.number("nvidia_code", 255) in NO_DRIVER
    return GpuReport(gpus, is_amd, _fault(lines, found=bool(gpus)), has_no_driver)


def _fault(lines: ReportLines, *, found: bool) -> str | None:
    for key, tool in TOOLS.items():
        code = lines.number(f"{key}_code", 255)
        if not code or (found and code < TIMED_OUT):
            continue
        if code == TIMED_OUT:
            return f"{tool} does not end: the driver hangs"
        if code == NO_FOLDER:
            return f"{tool} was not asked: there is no room for a temporary file in the home or in /tmp"
        words = lines.text(f"{key}_words") or lines.text(key)
        return f"{tool} ends with code {code}: {words}" if words else f"{tool} ends with code {code}"
    return None


def _nvidia(lines: ReportLines, own: frozenset[int]) -> dict[int, GpuProbe]:
    processes: dict[str, list[GpuProcess]] = {}
    for fields in map(_fields, lines.all("nvidia_app")):
        if len(fields) == 3 and (pid := number(fields[1], PID_MAX)) is not None:
            processes.setdefault(fields[0], []).append(GpuProcess(pid, number(fields[2], UNITS_MAX), pid in own))
    gpus: dict[int, GpuProbe] = {}
    for fields in map(_fields, lines.all("nvidia")):
        index = number(fields[0], GPUS_MAX - 1)
        if index is None or index in gpus or len(fields) not in (FIELDS, FIELDS_OLD):
            continue
        gpus[index] = GpuProbe(
            index,
            text(fields[1]),
            text(fields[2]),
            number(fields[3], UNITS_MAX) or None,
            number(fields[4], UNITS_MAX),
            number(fields[5], 100),
            fields[6:7] == ["Enabled"],
            fields[7:8] == ["Prohibited"],
            tuple(processes.get(fields[1], ())),
        )
    return gpus


def _fields(line: str) -> list[str]:
    return [field.strip() for field in line.split(",")]


def _amd(lines: ReportLines, own: frozenset[int]) -> dict[int, GpuProbe]:
    """Read the JSON of rocm-smi, a card by each key, or of amd-smi, a list of cards."""
    if lines.has("rocm"):
        document = _json("\n".join(lines.all("rocm")))
        cards = list(document.items()) if isinstance(document, dict) else []
        found = [_rocm_card(key, card, lines, own) for key, card in cards[:GPUS_MAX] if isinstance(card, dict)]
    else:
        document = _json("\n".join(lines.all("amd")))
        listed = document.get("gpu_data") if isinstance(document, dict) else document
        numbered = listed if isinstance(listed, list) else []
        found = [_amd_card(card) for card in numbered[:GPUS_MAX] if isinstance(card, dict)]
    return {gpu.index: gpu for gpu in found if gpu is not None}


def _json(said: str) -> object:
    """Return the JSON document of a tool, which may say something else before it; None if there is none."""
    for begin in re.finditer(r"^\s*[\[{]", said, re.MULTILINE):
        try:
            return json.JSONDecoder().raw_decode(said[begin.end() - 1 :])[0]
        except (ValueError, RecursionError):
            continue
    return None


def _rocm_card(key: str, card: dict[str, object], lines: ReportLines, own: frozenset[int]) -> GpuProbe | None:
    index = number(key.removeprefix("card"), GPUS_MAX - 1)
    total = _bytes_mib(card.get("VRAM Total Memory (B)"))
    if index is None or total is None:
        return None
    guid = str(card.get("GUID", ""))
    return GpuProbe(
        index,
        text(str(card.get("Unique ID", ""))),
        text(
            str(next((card[name] for name in ("Card Series", "Card series", "Device Name") if name in card), "AMD GPU"))
        ),
        total,
        _bytes_mib(card.get("VRAM Total Used Memory (B)")),
        number(str(card.get("GPU use (%)")), 100),
        processes=tuple(_kfd_processes(lines, guid, own)) if guid else (),
    )


def _bytes_mib(value: object) -> int | None:
    found = number(str(value), UNITS_MAX << 20)
    return None if found is None else found >> 20


def _kfd_processes(lines: ReportLines, guid: str, own: frozenset[int]) -> Iterator[GpuProcess]:
    """Yield the processes that the kernel lists for a device; a process without memory there only looked at it."""
    for fields in map(str.split, lines.all("kfd")):
        pid = number(fields[0], PID_MAX) if len(fields) == 3 and fields[1] == guid else None
        if pid is not None and (size := _bytes_mib(fields[2])):
            yield GpuProcess(pid, size, pid in own)


def _amd_card(card: dict[str, object]) -> GpuProbe | None:
    index = number(str(card.get("gpu")), GPUS_MAX - 1)
    total = _amd_value(card, "mem_usage", "total_vram", UNITS_MAX)
    if index is None or total is None:
        return None
    used = _amd_value(card, "mem_usage", "used_vram", UNITS_MAX)
    return GpuProbe(index, "", "AMD GPU", total, used, _amd_value(card, "usage", "gfx_activity", 100))


def _amd_value(card: dict[str, object], group: str, name: str, most: int) -> int | None:
    """Return a value such as {"value": 16368, "unit": "MB"}, where amd-smi writes MB for MiB."""
    values = card.get(group)
    value = values.get(name) if isinstance(values, dict) else None
    return number(str(value.get("value")), most) if isinstance(value, dict) else None
