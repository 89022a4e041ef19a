"""Backups of the store, and brokers that come back on one: what was decided since then only the workers know.

Played is what is promised (docs/adr/010): no attempt runs twice and no id is given twice. Left out is what is not:

- a store that nobody can tell is old: one worker at least has heard of a later position, and says so within AWAIT_S;
- a worker that joined after the backup: the restored store has no token of it;
- ids given, and jobs removed, before every worker has spoken: users submit and clean nothing meanwhile;
- workers removed meanwhile, or `grass resume --restored`: both say that something may be started a second time;
- jobs cleaned after the backup, unless they had ended before it; and of those cleaned before it only such that had one
  attempt: a worker that has not deleted its folder yet brings its part of the job back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.sim.checks import Books

if TYPE_CHECKING:
    from tests.sim.play import Play

#: How often a broker that is to go back is looked at again, when it cannot be done now.
TRIES = 10


@dataclass(frozen=True)
class Backup:
    """What was stored at a moment, and what was promised by then."""

    at: float
    number: int
    image: bytes
    books: Books


class Rewind:
    """The backup that will be restored, if there is one, and whether everybody has spoken since the last was."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.backup: Backup | None = None
        #: A store was restored, and not every worker has told what it holds.
        self.is_unsettled = False

    def back_up(self) -> None:
        """Take a backup, to be restored in a while."""
        play = self._play
        if self.backup is not None or self.is_unsettled or play.decider is None:
            return
        if play.machines.keys() - play.decider.board.workers.keys() - play.auditor.gone or play.decider.stale:
            return
        self.backup = Backup(play.now, play.store.number, play.store.image(), play.auditor.books())
        back_in_s = play.rng.uniform(0.5, 15)
        play.after(back_in_s, partial(self._go_back, self.backup, TRIES))
        if len(play.machines) > 1 and play.rng.random() < 0.6:
            # One hears nothing of what happens until then: by it the restored broker cannot be found out.
            play.wire.cut(play.rng.choice(sorted(play.machines)), True, True, back_in_s)

    def may_clean(self, job: int, attempts: int) -> bool:
        """Whether a finished job may be removed now."""
        before = self.backup is None or job in self.backup.books.final
        return before and attempts <= 1 and not self.is_unsettled

    def _go_back(self, backup: Backup, tries: int) -> None:
        play = self._play
        witness = self._witness(backup)
        if not play.faulty or tries == 0:
            self.backup = None
        elif witness is None or play.decider is None:
            play.after(1.0, partial(self._go_back, backup, tries - 1))
        else:
            self.backup, self.is_unsettled = None, True
            play.wire.heal(witness)
            play.wire.spared = witness
            play.wire.rewinds += 1
            play.broker_gone(play.rng.uniform(0.3, 4))
            play.auditor.lose_memory()
            play.store.restore(backup.image)
            play.auditor.restored(backup.books, play.users.keys())

    def _witness(self, backup: Backup) -> str | None:
        """A worker that has heard of what happened after the backup."""
        for name, link in reversed(self._play.wire.links.items()):
            if self._play.machines[name].agent is None or name in self._play.auditor.gone:
                continue
            if link.seen is not None and link.seen.commit > backup.number and link.seen_at > backup.at:
                return name
        return None

    def look(self) -> None:
        """Whether everybody has spoken by now."""
        decider = self._play.decider
        if not self.is_unsettled or decider is None or decider.stale or decider.board.unreconciled:
            return
        spoken = decider._recovery.state.spoken
        if self._play.machines.keys() - self._play.auditor.gone <= spoken:
            self.is_unsettled = False
            self._play.wire.spared = None
