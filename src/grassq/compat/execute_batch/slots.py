"""How many jobs of a batch run at a time on a machine, and on which GPU each of them runs.

Jobs are placed one by one, in thought, on what a machine has free when the batch begins, until one does not fit. Memory
is never oversubscribed. Cores and GPUs may be overloaded a little, because most jobs use less than they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from grassq.errors import Unreachable

#: Free cores may go down to minus this many.
CPU_OVERLOAD = 2
#: The utilisation of a GPU may go up to this, where 1 is the whole GPU.
GPU_OVERLOAD = Fraction("1.2")
#: Jobs at a time on one machine, whatever is free.
SLOTS_MAX = 1000
#: GPUs of one machine; what a machine says beyond this is refused.
GPUS_MAX = 1024


class FreeGpu(NamedTuple):
    """What one GPU has free."""

    id: int
    mem_free_mib: Fraction
    #: The share of the GPU that is in use, from 0 to 1.
    utilisation: Fraction
    mem_total_mib: Fraction
    #: Another batch has this GPU for itself.
    is_reserved: bool = False


class FreeResources(NamedTuple):
    """What one machine has free."""

    cores: Fraction
    cores_total: Fraction
    mem_mib: Fraction
    mem_total_mib: Fraction
    gpus: tuple[FreeGpu, ...] = ()
    #: Another batch has the whole machine for itself.
    is_reserved: bool = False


class Needs(NamedTuple):
    """What every job of a batch needs, and how much overload the batch tolerates."""

    cpus: Fraction = Fraction(1)
    memory_mib: Fraction = Fraction(7000)
    gpu_memory_mib: Fraction = Fraction(1000)
    gpu_utilisation: Fraction = Fraction("0.75")
    #: A job has the machine for itself.
    reserves_machine: bool = False
    #: A job has its GPU for itself.
    reserves_gpu: bool = True
    needs_gpu: bool = True
    cpu_overload: Fraction = Fraction(CPU_OVERLOAD)
    gpu_overload: Fraction = GPU_OVERLOAD


class Slots(NamedTuple):
    """The slots of a batch on one machine."""

    #: The GPU of each slot; None for a job without a GPU.
    gpus: tuple[int | None, ...]
    #: Why there is not one slot more.
    limit: str


class HeldSlot(NamedTuple):
    """A slot that another batch has on the same machine."""

    needs: Needs
    gpu: int | None


def slots_of(free: FreeResources, needs: Needs) -> Slots:
    """Return the slots of a batch on a machine with these free resources."""
    gpus: list[int | None] = []
    left = free
    while True:
        found = _placed(left, needs)
        if isinstance(found, str):
            return Slots(tuple(gpus), found)
        left, gpu = found
        gpus.append(gpu)
        if len(gpus) == SLOTS_MAX:
            return Slots(tuple(gpus), f"a batch runs at most {SLOTS_MAX} jobs at a time on one machine")


def _placed(free: FreeResources, needs: Needs) -> tuple[FreeResources, int | None] | str:
    """Return what is left after one more job, and its GPU; or why the job does not fit."""
    if free.is_reserved:
        return "machine: it is reserved for one job at a time (--reserve)"
    cores, mem = free.cores - needs.cpus, free.mem_mib - needs.memory_mib
    if cores < -needs.cpu_overload:
        over = f" (an overload of {_number(needs.cpu_overload)} is tolerated)" if needs.cpu_overload else ""
        return f"cores: a job needs {_number(needs.cpus)}, and {_number(free.cores)} are free{over}"
    if mem < 0:
        return f"memory: a job needs {_number(needs.memory_mib)} MiB, and {_number(free.mem_mib)} MiB are free"
    left = free._replace(cores=cores, mem_mib=mem, is_reserved=needs.reserves_machine)
    if not needs.needs_gpu:
        return left, None
    gpu = _gpu(free.gpus, needs)
    if isinstance(gpu, str):
        return gpu
    taken = gpu._replace(
        mem_free_mib=gpu.mem_free_mib - needs.gpu_memory_mib,
        utilisation=gpu.utilisation + needs.gpu_utilisation,
        is_reserved=needs.reserves_gpu,
    )
    return left._replace(gpus=tuple(taken if each is gpu else each for each in free.gpus)), gpu.id


def _gpu(gpus: tuple[FreeGpu, ...], needs: Needs) -> FreeGpu | str:
    """Return the least utilised GPU that takes one more job; or why none does."""
    if not gpus:
        return "GPUs: the machine has none (--no-gpu-required runs jobs without a GPU)"
    unreserved = [gpu for gpu in gpus if not gpu.is_reserved]
    if not unreserved:
        return "GPUs: each of them has a job (--no-reserve-gpu lets jobs share a GPU)"
    roomy = [gpu for gpu in unreserved if gpu.mem_free_mib >= needs.gpu_memory_mib]
    if not roomy:
        most = max(gpu.mem_free_mib for gpu in unreserved)
        return f"GPU memory: a job needs {_number(needs.gpu_memory_mib)} MiB, and at most {_number(most)} MiB are free"
    least = min(roomy, key=lambda gpu: gpu.utilisation)
    if least.utilisation + needs.gpu_utilisation > needs.gpu_overload:
        wanted, used = _number(needs.gpu_utilisation), _number(least.utilisation)
        limit = _number(needs.gpu_overload)
        return f"GPU utilization: a job needs {wanted}, {used} is in use, and {limit} is the most in all"
    return least


def beside(free: FreeResources, held: Sequence[HeldSlot]) -> FreeResources:
    """Return what is free for a batch beside other batches, whose jobs may not use yet what they asked for.

    What they use already was measured. So each number is the worse one: the measured one, or what the needs of the
    other batches leave of the whole machine.
    """
    cpus = sum((slot.needs.cpus for slot in held), Fraction())
    memory = sum((slot.needs.memory_mib for slot in held), Fraction())
    return free._replace(
        cores=min(free.cores, free.cores_total - cpus),
        mem_mib=min(free.mem_mib, free.mem_total_mib - memory),
        is_reserved=free.is_reserved or any(slot.needs.reserves_machine for slot in held),
        gpus=tuple(_gpu_beside(gpu, [slot.needs for slot in held if slot.gpu == gpu.id]) for gpu in free.gpus),
    )


def _gpu_beside(gpu: FreeGpu, others: Sequence[Needs]) -> FreeGpu:
    memory = sum((needs.gpu_memory_mib for needs in others), Fraction())
    return gpu._replace(
        mem_free_mib=min(gpu.mem_free_mib, gpu.mem_total_mib - memory),
        utilisation=max(gpu.utilisation, sum((needs.gpu_utilisation for needs in others), Fraction())),
        is_reserved=gpu.is_reserved or any(needs.reserves_gpu for needs in others),
    )


def read_free(document: Mapping[str, Any]) -> FreeResources:
    """Return the free resources that a daemon says a machine has; raise Unreachable for an answer of another form."""
    try:
        return FreeResources(
            cores=_fraction(document["free_cores"]),
            cores_total=_fraction(document["cpus"]),
            mem_mib=_fraction(document["mem_free_mib"]),
            mem_total_mib=_fraction(document["mem_total_mib"]),
            gpus=tuple(_read_gpu(gpu) for gpu in document["gpus"][:GPUS_MAX]),
        )
    except (KeyError, TypeError, ValueError):
        raise Unreachable("the daemon's answer cannot be read; is it another version? try `grass restart`") from None


def _read_gpu(gpu: Mapping[str, Any]) -> FreeGpu:
    # A driver may know no numbers, as for a part of a GPU: then the GPU counts as idle, and its memory as used up.
    free, used, total = (_fraction(gpu[name] or 0) for name in ("mem_free_mib", "utilisation", "mem_total_mib"))
    return FreeGpu(int(gpu["index"]), free, used, total)


def _fraction(value: object) -> Fraction:
    # By its text: a float such as 0.4 is not exactly 0.4, and sums of it would pass a limit that they meet.
    return Fraction(str(value))


def _number(value: Fraction) -> str:
    return f"{float(value):.10g}"
