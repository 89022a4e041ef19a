"""The daemon."""

from grassq.daemon.main import copy_store, run

__all__ = ["copy_store", "run"]
