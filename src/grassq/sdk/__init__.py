"""Grass from Python."""

from grassq.sdk.client import Client, Job, JobFailed

__all__ = ["Client", "Job", "JobFailed"]
