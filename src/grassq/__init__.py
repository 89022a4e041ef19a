"""Grass: a job queue for people with GPUs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.errors import GrassError
    from grassq.sdk import Client, Job, JobFailed

__version__ = "0.1.0"

__all__ = ["Client", "GrassError", "Job", "JobFailed", "__version__"]


def __getattr__(name: str) -> object:
    # Looked up on first use: the command line imports this package on every call and must stay light.
    if name in ("Client", "Job", "JobFailed"):
        from grassq import sdk

        return getattr(sdk, name)
    if name == "GrassError":
        from grassq.errors import GrassError

        return GrassError
    raise AttributeError(f"module 'grassq' has no attribute {name!r}")
