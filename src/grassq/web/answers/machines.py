"""What the routes about machines over ssh answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict

from grassq.machines.book import MachineRow
from grassq.web.responses import ErrorText


class MachinesDocument(TypedDict):
    """Every machine over ssh."""

    machines: list[MachineRow]


class MachineDefinitionDocument(TypedDict):
    """What makes a machine again: the fields of `AddBody` without a key."""

    name: str
    #: `user@host`, or an alias of `~/.ssh/config`.
    target: str
    port: int | None
    #: The key file.
    identity: str | None
    labels: Sequence[str]
    capacity: str | None
    #: The folder there.
    dir: str
    #: The socket of an ssh agent.
    agent: str | None
    no_python: bool


class MachineAboutDocument(TypedDict):
    """One machine."""

    machine: MachineRow
    definition: MachineDefinitionDocument
    #: The command line that logs in there.
    argv: list[str]


class FreeGpuDocument(TypedDict):
    """A GPU of a machine."""

    index: int
    name: str
    mem_total_mib: int
    mem_free_mib: int
    #: In percent; null if not known.
    utilisation: int | None


class MachineFreeDocument(TypedDict):
    """What a machine has free now."""

    cpus: int
    free_cores: float
    mem_total_mib: int
    mem_free_mib: int
    #: Why the GPUs are not known.
    gpu_fault: str | None
    gpus: list[FreeGpuDocument]


class MachineAddedDocument(TypedDict):
    """What came of adding a machine."""

    name: str
    status: Literal["added", "changed", "unchanged", "unknown_key"]
    #: What was found there, a line each; with `unknown_key` what ssh says about the key.
    found: list[str]
    #: With `unknown_key`: the command line of ssh that asks a person about the key.
    ask: list[str]


class MachineRemovedDocument(TypedDict):
    """A machine that was removed."""

    name: str
    #: What is left there, a line each.
    left: list[str]


class MachineRetriedDocument(TypedDict):
    """A machine that connects now."""

    name: str


class MachineTestDocument(TypedDict, total=False):
    """A line of a test: a step (`step`, `ok`, `words`), the end (`ended`, `failed`), or an error."""

    #: What is tested.
    step: str
    #: Whether it works; null for a remark.
    ok: bool | None
    #: What was found, or what to do.
    words: str
    ended: bool
    #: How many steps have failed.
    failed: int
    error: NotRequired[ErrorText]
