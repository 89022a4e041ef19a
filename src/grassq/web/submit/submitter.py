"""Who submits, and what of the submitter's machine a job gets: all of it on this machine, nothing from another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.web.access.principal import Principal


class Environment(Struct, frozen=True):
    """A submitter's environment, and how it is stored."""

    values: Mapping[bytes, bytes]
    encoded: bytes
    digest: bytes


def environment_of(pairs: Pairs) -> Environment:
    """Return an environment as it is stored."""
    encoded = msgspec.msgpack.encode(pairs)
    return Environment(dict(pairs), encoded, hashlib.sha256(encoded).digest())


_EMPTY = environment_of(())


class Submitter(Struct, frozen=True):
    """Who submits: where, with which environment and umask; from another machine, with which right instead."""

    cwd: bytes = b""
    env: Environment = _EMPTY
    umask: int = 0o022
    #: The token of somebody on another machine; None for the owner on this one.
    by: str | None = None
    #: The only queues that token may use; None for every one.
    queues: tuple[str, ...] | None = None
    #: It may use queues that have no command of their own.
    bare: bool = False

    @classmethod
    def local(cls, cwd: bytes, env: Environment, umask: int = 0o022) -> Submitter:
        """Return the owner of this daemon, whose directory, environment and umask the job gets."""
        return cls(cwd, env, umask & 0o777)

    @classmethod
    def remote(cls, caller: Principal) -> Submitter:
        """Return a submitter on another machine: directory, environment and umask are then the worker's."""
        return cls(by=caller.token, queues=caller.queues, bare=caller.bare)

    @property
    def is_remote(self) -> bool:
        """Say whether the job comes from another machine."""
        return self.by is not None
