"""How a home is served: alone, as a broker others can reach, or as a worker of another broker.

Remembered in the home, so that a daemon started by a command in the background serves it the same way again.
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
    """What was said on the daemon's command line that another start must not forget."""

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
        """Whether any start would do the same: this machine's queue on this machine, kept where it always is."""
        elsewhere = self.store not in (None, STORE_MEMORY)
        return not (self.bind or self.connect or self.no_worker or self.no_broker or self.labels or elsewhere)


def recall(home: str) -> SavedMode:
    """How this home was served last."""
    path = Path(home) / FILE_NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(FILE_MAX), type=SavedMode)
    except FileNotFoundError:
        return SavedMode()
    except (msgspec.MsgspecError, OSError) as error:
        raise Refused(f"{path} cannot be read: {error}; say `grass daemon` with its options again") from error


def remember(home: str, mode: SavedMode) -> None:
    """Serve this home like that again, when a command starts a daemon in the background."""
    path = Path(home) / FILE_NAME
    if mode.is_plain:
        path.unlink(missing_ok=True)
        return
    # For the owner alone: a store's address may hold a password.
    atomic_files.write_aside(home, FILE_NAME, msgspec.json.encode(mode), sync=True)
