"""The environment of a job sent from another machine: what programs need of the worker's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from msgspec import Struct

from grassq.core.job_options import Pairs

#: What programs need to be found and to run; nothing else of the daemon's environment reaches a job of another user.
#: `create-queue --env NAME=value` gives the jobs of a queue more.
PASSED_ON = frozenset(
    b"PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV CONDA_PREFIX"
    b" NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES".split()
)
#: Not NVIDIA_: there is a NVIDIA_API_KEY.
PASSED_ON_PREFIXES = (b"LC_", b"CUDA_", b"ROCM_", b"HIP_", b"HSA_")

#: What a login shell begins with.
LOGIN = frozenset(b"PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ".split())


class DefaultEnvironment(Struct, frozen=True):
    """A worker's own environment, directory and umask."""

    env: Pairs = ()
    cwd: bytes = b"/"
    umask: int = 0o022


def of_this_process(env: Mapping[bytes, bytes], *, background: bool) -> DefaultEnvironment:
    """Return the environment of this process; call it before anything changes. In the background, `cwd` is the home."""
    umask = os.umask(0o077)
    os.umask(umask)
    home = env.get(b"HOME") or os.fsencode(pwd.getpwuid(os.getuid()).pw_dir)
    try:
        cwd = home if background else os.getcwdb()
    except FileNotFoundError:
        cwd = home
    return DefaultEnvironment(tuple(env.items()), cwd, umask)


def passed_on(env: Pairs) -> Pairs:
    """Return the part of a daemon's environment that jobs of other users get."""
    return tuple((name, value) for name, value in env if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES))


def before_login(env: Pairs) -> Pairs:
    """Return the part of a daemon's environment that a login shell begins with."""
    return tuple((name, value) for name, value in env if name in LOGIN or name.startswith(b"LC_"))
