"""The resources Grass knows by name: no other module of `core` spells one. Every other name is a user's.

Light to import, because the command line needs it.
"""

from __future__ import annotations

CPU = "cpu"
#: Sums without ids.
POOLS = frozenset({CPU, "mem", "disk"})
#: The memory of a device, and the devices that have it.
VRAM = "vram"
VRAM_OF = "gpu"
#: The devices that slots take, and what an allocation calls the slot itself.
SLOTS_OF = VRAM_OF
SLOT = "slot"
#: Resources that count in MiB.
SIZES = frozenset({"mem", "disk", VRAM})
#: Resources that are options on every machine, so a command line means the same everywhere. Only these take the amount
#: as a separate word.
COMMON_RESOURCES = POOLS | {VRAM, VRAM_OF}
#: Other words that people use for these.
OTHER_NAMES = {
    **dict.fromkeys(("gpus", "ngpu", "ngpus", "cuda", "gres", "cards"), "gpu"),
    **dict.fromkeys(("cpus", "ncpu", "ncpus", "core", "cores", "threads"), "cpu"),
    **dict.fromkeys(("memory", "ram"), "mem"),
    **dict.fromkeys(("gpu_mem", "gpumem", "gpu_memory"), VRAM),
    "storage": "disk",
}
#: Short options that people try for some of these.
SHORT_NAMES = {"-g": "gpu", "-G": "gpu", "-c": "cpu", "-m": "mem"}
