"""The submitter of a job, and what the job gets from the submitter's machine: everything locally, nothing remotely."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.web.access.principal import OWNER, Principal


class Environment(Struct, frozen=True):
    """A submitter's environment, decoded and as it is stored."""

    values: Mapping[bytes, bytes]
    encoded: bytes
    digest: bytes


def environment_of(pairs: Pairs) -> Environment:
    """Return an environment in the form it is stored in."""
    encoded = msgspec.msgpack.encode(pairs)
    return Environment(dict(pairs), encoded, hashlib.sha256(encoded).digest())


_EMPTY = environment_of(())


class Submitter(Struct, frozen=True):
    """The sender of a job: its rights, and on this machine its directory, environment and umask.

    A job from another machine gets the worker's directory, environment and umask.
    """

    cwd: bytes = b""
    env: Environment = _EMPTY
    umask: int = 0o022
    caller: Principal = OWNER

    @property
    def is_remote(self) -> bool:
        """Whether the job comes from another machine."""
        return not self.caller.is_local
