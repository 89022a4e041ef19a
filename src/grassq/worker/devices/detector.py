"""What a way to find resources says of itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.core.resources.capacity import Capacity


class Detector(Struct, frozen=True):
    """Finds some resources of this machine, and knows how a job is told which devices it holds."""

    #: The resources it may find.
    names: frozenset[str]
    #: Look for them; it must not block the event loop, and has DETECT_TIMEOUT_S.
    detect: Callable[[], Awaitable[Capacity]]
    #: The answer comes at once, so that a worker waits for it before its first hello.
    quick: bool = False
    #: The variables that list the devices a job holds, as (resource, variable). A job that holds none inherits none.
    variables: tuple[tuple[str, bytes], ...] = ()
    #: What else a job is told that holds such devices: variables and their values.
    beside: Pairs = ()
