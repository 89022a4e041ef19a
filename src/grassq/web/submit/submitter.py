"""The submitter of a job, and what the job gets from the submitter's machine: everything locally, nothing remotely."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.web.access.principal import Principal


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
    """The sender of a job: its directory, environment and umask; on another machine, its rights instead."""

    cwd: bytes = b""
    env: Environment = _EMPTY
    umask: int = 0o022
    #: The token of a submitter on another machine; None for the owner on this machine.
    by: str | None = None
    #: The only queues the token may use; None for every queue.
    queues: tuple[str, ...] | None = None
    #: Whether the submitter may use queues without a command of their own.
    bare: bool = False

    @classmethod
    def local(cls, cwd: bytes, env: Environment, umask: int = 0o022) -> Submitter:
        """Return the owner of this daemon, with the directory, environment and umask for the job."""
        return cls(cwd, env, umask & 0o777)

    @classmethod
    def remote(cls, caller: Principal) -> Submitter:
        """Return a submitter on another machine: the job gets the worker's directory, environment and umask."""
        return cls(by=caller.token, queues=caller.queues, bare=caller.bare)

    @property
    def is_remote(self) -> bool:
        """Whether the job comes from another machine."""
        return self.by is not None
