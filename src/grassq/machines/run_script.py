"""The command of an attempt as sh: what the supervisor of the far side reads instead of spec.json."""

from __future__ import annotations

import json
import os

from grassq.run import rundir
from grassq.run.limits import time_limits
from grassq.run.wrapper import quoted
from grassq.worker.run_spec import Launch

#: Above this, the far side tries whether the system takes the arguments and environment.
LARGE = 100_000


def run_script(launch: Launch, *, too_large: bool = False) -> bytes:
    """Return two functions: `far_describe` sets what the supervisor needs, `far_become` becomes the command.

    A command that is too large to be sent cannot become anything.
    """
    spec = rundir.RunSpec.unpacked(launch.spec)
    # A variable without a name, which a broken parent may pass on, is dropped, as the shim does.
    env = [b"%s=%s" % pair for pair in spec.env.items() if pair[0]]
    argv = list(spec.argv) or [b""]
    if too_large:
        env, argv = [], [b"true"]
    settings: dict[str, bytes] = {
        "store": json.dumps(spec.store).encode("ascii"),
        "split": b"%d" % spec.split,
        "lease": b"%d" % spec.lease,
        "keep_children": b"%d" % spec.keep_children,
        "grace_ms": b"%d" % (spec.grace_s * 1000),
        "leave_ms": b"%d" % (spec.leave_grace_s * 1000),
        "limit_ms": b"%d" % (spec.time_limit_s * 1000),
        "limit_words": time_limits.reached(spec.time_limit_s).encode("ascii"),
        "warn_ms": b"%d" % (spec.warn_s * 1000),
        "warn_signal": b"%d" % spec.warn_signal,
        "idle_ms": b"%d" % (spec.idle_limit_s * 1000),
        "idle_words": time_limits.quiet(spec.idle_limit_s).encode("ascii"),
        "streams": " ".join(rundir.streams_of(spec.split)).encode("ascii"),
        "cwd": spec.cwd,
        "word": argv[0],
        "command_path": spec.env.get(b"PATH", os.fsencode(os.defpath)),
        "command_umask": b"%04o" % spec.umask,
        "is_large": b"%d" % (too_large or sum(map(len, (*env, *argv))) > LARGE),
    }
    described = b"\n".join(b"far_%s=%s" % (name.encode("ascii"), quoted(value)) for name, value in settings.items())
    become = (
        b"false"
        if too_large
        else b" ".join((b"exec env -i --", *map(quoted, env), b'"$@"', *map(quoted, argv[1:]), b"3>&-"))
    )
    return b"far_describe() {\n%s\n}\nfar_become() {\n%s\n}\n" % (described, become)
