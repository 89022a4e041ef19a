"""Grass: a job queue for people with GPUs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.errors import BadInput, GrassError, NotFound, Refused, Unreachable
    from grassq.sdk import (
        ALL_COMPLETED,
        FIRST_COMPLETED,
        FIRST_EXCEPTION,
        CannotStartWarning,
        Client,
        Job,
        JobCancelled,
        JobFailed,
        JobFuture,
        JobList,
        SweepFileResult,
        as_completed,
        wait,
    )

__version__ = "0.1.0"

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BadInput",
    "CannotStartWarning",
    "Client",
    "GrassError",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFuture",
    "JobList",
    "NotFound",
    "Refused",
    "SweepFileResult",
    "Unreachable",
    "__version__",
    "as_completed",
    "wait",
]

_ERRORS = ("BadInput", "GrassError", "NotFound", "Refused", "Unreachable")


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> object:
    # Looked up on first use: the command line imports this package on every call and must stay light.
    if name in _ERRORS:
        from grassq import errors

        return getattr(errors, name)
    if name in __all__:
        from grassq import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module 'grassq' has no attribute {name!r}")
