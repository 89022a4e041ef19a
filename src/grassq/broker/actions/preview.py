"""What an action on many jobs would change and what it would skip, counted by state; nothing is changed."""

from __future__ import annotations

from collections import Counter

from grassq.broker.actions.bulk import NOTES_MAX, Action, read_step
from grassq.broker.batch import Batch
from grassq.broker.selection import IdReading, Reading
from grassq.broker.views import Document


class Preview:
    """Counts the jobs of an action; read it step by step."""

    def __init__(self, action: Action) -> None:
        self._action = action
        #: The state of the job of each group that would be changed.
        self._chosen: dict[int, str] = {}
        #: The job of each group that would be changed.
        self.ids: dict[int, int] = {}
        self._all: Counter[str] = Counter()
        self._notes: dict[str, None] = {}

    def read(self, batch: Batch, reading: Reading | IdReading) -> Reading | IdReading:
        """Count the next jobs; return the reading after them."""
        some, after = read_step(batch, reading)
        jobs = []
        for job, named in some:
            self._all[str(job.state)] += 1
            why = self._action.why_not(batch, job, named)
            if why is None:
                jobs.append(job)
            elif why:
                self._note(why)
        left_out = self._action.check(batch, jobs)
        for why in left_out.values():
            self._note(why)
        jobs = self._action.effective(batch, [job for job in jobs if job.id not in left_out])
        self._chosen.update((self._action.group(job), str(job.state)) for job in jobs)
        self.ids.update((self._action.group(job), job.id) for job in jobs)
        return after

    def _note(self, why: str) -> None:
        if len(self._notes) < NOTES_MAX:
            self._notes[why] = None

    def document(self) -> Document:
        """Return the counts as a document."""
        chosen = Counter(self._chosen.values())
        skipped = self._all - chosen
        return {
            "count": chosen.total(),
            "states": dict(chosen),
            "skipped": {"count": skipped.total(), "states": dict(skipped)},
            "notes": [*self._notes],
        }
