"""Makes snapshots of the folders of --send, with a progress bar; loaded only when the daemon asks for them."""

from __future__ import annotations

import os
from base64 import b64decode
from typing import TYPE_CHECKING

from grassq import home as homes
from grassq.cli.progress import byte_progress
from grassq.cli.render import error
from grassq.errors import Unreachable
from grassq.files.blobs import BlobStore
from grassq.files.snapshot import snapshot
from grassq.net.encoding import parse
from grassq.net.http import is_number

if TYPE_CHECKING:
    from grassq.net.http import Response


def make_snapshots(home: str, response: Response) -> list[str]:
    """Store the content of the folders that the daemon names in its answer; return the manifest of each."""
    length = response.headers.get("grass-stdout", "")
    folders = parse(response.body[: int(length)]) if is_number(length) else None
    if not isinstance(folders, list):
        raise Unreachable("the daemon's answer cannot be read; `grass restart` (jobs keep running)")
    blobs = BlobStore(os.fsencode(f"{home}/{homes.BLOBS_NAME}"))
    return [_snapshot(_folder(word), blobs) for word in folders]


def _folder(word: object) -> bytes:
    return os.fsencode(word) if isinstance(word, str) else b64decode(word["b64"])  # type: ignore[index]


def _snapshot(folder: bytes, blobs: BlobStore) -> str:
    label = os.fsdecode(folder.rpartition(b"/")[2] or folder)
    with byte_progress(f"reading {label}", is_shown=os.isatty(2)) as progress:
        return snapshot(folder, blobs, progress, note=lambda text: error(f"note: {text}")).id
