"""Notices at the start that the store does not know the jobs whose folders are here: it is new, older or another."""

from __future__ import annotations

import logging

from grassq import atomic_files
from grassq.broker.recovery import lost_history_warning
from grassq.errors import Refused
from grassq.store.relational import Store
from grassq.worker import strays

log = logging.getLogger(__name__)

#: Folders that are compared with the store, the newest first.
COMPARED_MAX = 10_000
#: Folders whose run dirs are asked which store they belong to, the newest first.
ASKED_MAX = 10


class LostHistory:
    """The folders of jobs on this machine, beside what the store knows."""

    def __init__(self, run_root: str) -> None:
        self._run_root = run_root
        self._folders = atomic_files.numbers(f"{run_root}/jobs")
        #: Jobs that have a folder here, and that the store has no record of since it was lost or restored.
        self.unknown: list[int] = []
        #: How many jobs this start has found lost; 0 if nothing was lost since the last start.
        self.lost_jobs = 0

    @property
    def highest_id(self) -> int:
        """The highest id that has a folder here; 0 without folders."""
        return next(iter(self._folders), 0)

    def compare(self, store: Store) -> None:
        """Find the jobs that are lost, and log it; raise Refused if folders and store have the same ids.

        Compare before a broker begins on the store: a broker that finds the store restored claims the ids of all
        folders. Nothing is stored here, so that the broker can tell how far the store has come.
        """
        store_id, highest_id, restored_to = store.ids_taken()
        new = [id_ for id_ in self._folders[:COMPARED_MAX] if id_ > restored_to]
        foreign = [id_ for id_ in new[:ASKED_MAX] if strays.store_of(self._run_root, id_) not in (None, store_id)]
        if both := store.known(foreign):
            raise Refused(
                f"{self._run_root}/jobs has run dirs of another store than {store.where}, and both have a job "
                f"{max(both)}; put the right store back, move the folder `jobs` away, or use another GRASS_HOME"
            )
        is_lost = bool(foreign) or any(id_ > highest_id for id_ in new)
        if is_lost:
            restored_to = self.highest_id
        if restored_to:
            some = [id_ for id_ in self._folders[:COMPARED_MAX] if id_ <= restored_to]
            known = store.known(some)
            self.unknown = [id_ for id_ in some if id_ not in known]
        if is_lost and self.unknown:
            self.lost_jobs = len(self.unknown)
            log.error("lost_jobs %s", lost_history_warning(self.lost_jobs))
