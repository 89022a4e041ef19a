"""What an attempt is started with: its words with the placeholders filled in, and its environment."""

from __future__ import annotations

import os
from typing import Any

from grassq.core.messages import Start
from grassq.core.model import Pairs
from grassq.core.resources import VRAM, VRAM_OF, Allocation, amount_text, device_order
from grassq.core.template import fill
from grassq.run import rundir
from grassq.worker import orders
from grassq.worker.surroundings import Surroundings, harmless

LEAVE_GRACE_S = 2.0
#: Of our own names a job inherits only these: they say which queue it talks to, not which job it is.
_KEPT = frozenset({b"GRASS_HOME", b"GRASS_BROKER"})
#: Devices are numbered as NVML numbers them, so CUDA must count the same way.
_CUDA_ORDER = b"CUDA_DEVICE_ORDER"
_VISIBLE = b"CUDA_VISIBLE_DEVICES"


def run_spec(
    start: Start,
    path: str,
    checkpoint: str,
    *,
    store: str,
    boot: str,
    with_daemon: bool,
    around: Surroundings,
) -> dict[str, Any]:
    """The content of spec.json for one attempt; `around` is for a job sent from another machine."""
    spec, where = start.spec, start.placement
    held = placeholders(where.allocation)
    values = {
        **held,
        b"job.id": b"%d" % start.job,
        b"job.attempt": b"%d" % start.attempt,
        b"job.name": (start.name or "").encode(),
    }
    is_guest = spec.terms.guest is not None
    env = environment(start, harmless(around.env) if is_guest else start.env, path, checkpoint, held, values)
    own_cwd = around.cwd if is_guest and not spec.own_cwd else spec.cwd
    cwd = where.cwd if where.cwd is not None and not spec.own_cwd else own_cwd
    words = tuple(fill(word, values) for word in (*where.prefix, *spec.command))
    argv = (spec.shell, b"-c", *words) if spec.shell else words
    encode = rundir.encode_word
    return {
        "v": rundir.FORMAT,
        "store": store,
        "job": start.job,
        "attempt": start.attempt,
        "boot": boot,
        "argv": [encode(word) for word in argv],
        "env": [[encode(name), encode(value)] for name, value in env.items()],
        "cwd": encode(cwd),
        "umask": around.umask if is_guest else spec.umask,
        "split": spec.split,
        "grace_s": spec.grace_s,
        "leave_grace_s": LEAVE_GRACE_S,
        "keep_children": spec.keep_children,
        "with_daemon": with_daemon,
        "lease": where.lease_s is not None,
        "order": orders.keep(start, env),
    }


def placeholders(allocation: Allocation) -> dict[bytes, bytes]:
    """What `{gpu}` and the like stand for: ids joined by commas for devices, the amount for a pool."""
    held: dict[bytes, bytes] = {}
    for name, amount in allocation.items():
        if isinstance(amount, dict):
            ids = ",".join(sorted(amount, key=device_order)).encode()
            if name == VRAM:
                held.setdefault(VRAM_OF.encode(), ids)
                held[b"vram"] = amount_text(max(amount.values())).encode()
            else:
                held[name.encode()] = ids
        else:
            held[name.encode()] = amount_text(amount).encode()
    return held


def environment(
    start: Start, base: Pairs, path: str, checkpoint: str, held: dict[bytes, bytes], values: dict[bytes, bytes]
) -> dict[bytes, bytes]:
    """An environment to begin with, the queue's, the job's own, and what Grass tells the job."""
    own = dict(start.placement.env) | dict(start.spec.env)
    env = {
        name: value for name, value in base if name != _VISIBLE and (not name.startswith(b"GRASS_") or name in _KEPT)
    }
    if VRAM_OF.encode() in held:
        env[_VISIBLE] = held[VRAM_OF.encode()]
        env[_CUDA_ORDER] = b"PCI_BUS_ID"
    env |= {name: fill(value, values) for name, value in own.items()}
    files = os.fsencode(rundir.files_dir(path))
    env |= {b"GRASS_" + name.upper(): value for name, value in held.items()}
    return env | {
        b"GRASS_JOB_ID": b"%d" % start.job,
        b"GRASS_JOB_NAME": (start.name or "").encode(),
        b"GRASS_QUEUE": start.spec.queue.encode(),
        b"GRASS_ATTEMPT": b"%d" % start.attempt,
        b"GRASS_RUN_DIR": files,
        b"GRASS_RESULT_FILE": files + b"/result.json",
        b"GRASS_CHECKPOINT_DIR": os.fsencode(checkpoint),
    }
