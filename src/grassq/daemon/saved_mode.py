"""The options of the daemon's command line: alone, as a broker for other machines, or as a worker of another broker.

They are saved in the home, so that a daemon started by a command in the background uses them again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from grassq import atomic_files
from grassq.errors import Refused
from grassq.settings import STORE_MEMORY

FILE_NAME = "mode.json"
FILE_MAX = 64 << 10


class SavedMode(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of the daemon's command line that the next start needs."""

    bind: str | None = None
    connect: str | None = None
    no_worker: bool = False
    no_broker: bool = False
    cert: str | None = None
    labels: tuple[str, ...] = ()
    name: str | None = None
    capacity: str | None = None
    store: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a start without options does the same: queue and worker on this machine, store in the home."""
        elsewhere = self.store not in (None, STORE_MEMORY)
        return not (self.bind or self.connect or self.no_worker or self.no_broker or self.labels or elsewhere)


def load_mode(home: str) -> SavedMode:
    """Return the saved options of this home."""
    path = Path(home) / FILE_NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(FILE_MAX), type=SavedMode)
    except FileNotFoundError:
        return SavedMode()
    except (msgspec.MsgspecError, OSError) as error:
        raise Refused(f"{path} cannot be read: {error}; run `grass daemon` with its options again") from error


def save_mode(home: str, mode: SavedMode) -> None:
    """Save the options for daemons that a command starts in the background."""
    path = Path(home) / FILE_NAME
    if mode.is_plain:
        path.unlink(missing_ok=True)
        return
    # For the owner only: a store's address may hold a password.
    atomic_files.write_aside(home, FILE_NAME, msgspec.json.encode(mode), sync=True)
