"""The interface of a detector."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.core.resources.capacity import Capacity


class Detector(Struct, frozen=True):
    """Finds some resources of this machine, and names the variables that tell a job which devices it holds."""

    #: The resources that this detector may find.
    names: frozenset[str]
    #: Look for the resources; must not block the event loop, and has DETECT_TIMEOUT_S.
    detect: Callable[[], Awaitable[Capacity]]
    #: The answer comes at once, so a worker waits for it before its first hello.
    quick: bool = False
    #: The variables that list the devices a job holds, as (resource, variable). A job without devices inherits none.
    variables: tuple[tuple[str, bytes], ...] = ()
    #: Other variables, with their values, for a job that holds such devices.
    beside: Pairs = ()
