"""What is sent to the jobs of a batch and what comes back: --copy-forward and --copy-backwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path

from grassq import home as homes
from grassq.errors import BadInput
from grassq.files.blobs import CHUNK, BlobDamaged, BlobStore
from grassq.files.manifest import FILE, FOLDER, PROGRAM, TEXT_BYTES_MAX, Entry, Manifest, parse
from grassq.files.patterns import Patterns
from grassq.files.snapshot import Progress, snapshot

Note = Callable[[str], None]


def stored_trees(home: str) -> BlobStore:
    """Return where the content of what is sent is stored, for the daemon and for every client."""
    return BlobStore(os.fsencode(f"{home}/{homes.BLOBS_NAME}"))


def check_forward(paths: Iterable[str], cwd: str) -> None:
    """Raise BadInput for a path to send that is not there."""
    for path in paths:
        if not Path(_whole(path, cwd)).exists():
            raise BadInput(f"--copy-forward: there is no file or folder {path}")


def fetch_patterns(paths: Iterable[str]) -> tuple[bytes, ...]:
    """Return the patterns of what comes back; raise BadInput for a path outside of the job's folder."""
    patterns = tuple(os.fsencode(path) for path in paths)
    try:
        Patterns(patterns)
    except BadInput as error:
        raise BadInput(f"--copy-backwards: {error}") from None
    # The last part of `./` and of `.` is nothing, which is everything.
    return tuple(b"." if os.path.normpath(each) == b"." else each for each in patterns)


class TreeSender:
    """Stores what is sent, once for each list of paths."""

    def __init__(self, blobs: BlobStore, cwd: str, progress: Progress | None, note: Note) -> None:
        self._blobs = blobs
        self._cwd = cwd
        self._progress = progress
        self._note = note
        self._known: dict[tuple[str, ...], str] = {}

    def manifest(self, paths: tuple[str, ...]) -> str:
        """Return the id of the tree of these paths: the contents of `./`, and every other path under its name.

        A path outside of the current directory has its last name only.
        """
        if paths not in self._known:
            self._known[paths] = self._store(paths)
        return self._known[paths]

    def _store(self, paths: tuple[str, ...]) -> str:
        places = {_whole(path, self._cwd): _place(path, self._cwd) for path in paths}
        if list(places.values()) == [b""]:
            return self._snapshot(next(iter(places))).id
        entries: dict[bytes, Entry] = {}
        for whole, place in places.items():
            for entry in self._entries(whole, place):
                if entries.setdefault(entry.path, entry) != entry:
                    raise BadInput(f"--copy-forward: two of the paths have a {os.fsdecode(entry.path)}")
        manifest = Manifest(entries.values())
        self._blobs.put(manifest.text)
        self._blobs.sync()
        return manifest.id

    def _entries(self, whole: str, place: bytes) -> Iterable[Entry]:
        parts = place.split(b"/") if place else []
        yield from (Entry(b"/".join(parts[:end]), FOLDER) for end in range(1, len(parts)))
        if Path(whole).is_dir():
            if place:
                yield Entry(place, FOLDER)
            below = place + b"/" if place else b""
            yield from (entry._replace(path=below + entry.path) for entry in self._snapshot(whole).entries)
            return
        try:
            with Path(whole).open("rb", buffering=0) as file:
                stored = self._blobs.put_chunks(iter(lambda: file.read(CHUNK), b""))
                kind = PROGRAM if os.fstat(file.fileno()).st_mode & 0o100 else FILE
        except OSError as error:
            raise BadInput(f"--copy-forward: {whole} cannot be read: {error.strerror}") from error
        yield Entry(place, kind, stored.size, stored.hash)

    def _snapshot(self, folder: str) -> Manifest:
        return snapshot(os.fsencode(folder), self._blobs, self._progress, note=self._note)


class UnchangedFiles:
    """Removes files from the results of jobs that are as they were sent."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._known: dict[str, Manifest] = {}

    def remove(self, folder: Path, sent: str) -> None:
        """Remove the files of a folder that are as in this tree, and the tree's folders that are empty then."""
        if sent not in self._known:
            try:
                with self._blobs.open(sent) as file:
                    self._known[sent] = parse(file.read(TEXT_BYTES_MAX + 1))
            except (BlobDamaged, BadInput):
                return  # the tree is not stored any more: all files are kept
        entries = self._known[sent].entries
        for entry in entries:
            path = folder / os.fsdecode(entry.path)
            if entry.is_file and _is_same(path, entry):
                path.unlink()
        for entry in reversed(entries):
            if entry.kind == FOLDER:
                with suppress(OSError):  # it is not empty, or nothing of it came back
                    (folder / os.fsdecode(entry.path)).rmdir()


def _is_same(path: Path, entry: Entry) -> bool:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size != entry.size:
            return False
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest() == entry.hash
    except OSError:
        return False


def _whole(path: str, cwd: str) -> str:
    return os.path.normpath(Path(cwd, path))


def _place(path: str, cwd: str) -> bytes:
    """Return where a path is in the job's folder."""
    whole = _whole(path, cwd)
    if whole == cwd:
        return b""
    inside = os.path.relpath(whole, cwd)
    return os.fsencode(Path(whole).name if inside.startswith("../") or inside == ".." else inside)
