"""Send a tree to the far side: what is there already is not sent, and what was cut off goes on where it was."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from grassq.files import tar_format
from grassq.files.blobs import BlobStore
from grassq.files.manifest import FOLDER, LINK, PROGRAM, Entry, Manifest
from grassq.files.names import shown
from grassq.files.tar_format import Header
from grassq.machines.far_files import (
    LARGE_BYTES,
    WORK_S,
    Conversation,
    EarlyAnswer,
    FarCommands,
    Progress,
    TransferFailed,
    quoted,
    unexpected,
)
from grassq.machines.transport import Transport

#: Equal files of one tree beyond this count are sent one by one: file systems bound the links of one file.
LINKS_MAX = 1000
#: What the far side keeps for later jobs. A file of ext4 may have 65,000 links: more than LINKS_MAX in each tree.
FAR_BYTES_MAX = 20 << 30
FAR_TREES_MAX = 60
#: What a file takes on a disk besides its bytes, at the most.
DISK_BLOCK = 4096
#: The bytes that are gathered before they are written to the stream.
CHUNK = 1 << 20
#: How often the far side is asked again, if contents vanish there while the tree is being sent.
ROUNDS_MAX = 4


def send(
    transport: Transport,
    far: FarCommands,
    manifest: Manifest,
    blobs: BlobStore,
    dest: bytes,
    progress: Progress | None = None,
) -> None:
    """Make a tree on the far side, whole or not at all; it is a new folder `dest`, an absolute path there.

    LinkLost: call again, and it goes on. TransferFailed: no space there, or `dest` has other files.
    """
    _Sender(transport, far, manifest, blobs, dest.rstrip(b"/"), progress).run()


class _Missing(NamedTuple):
    """What the far side lacks."""

    keys: list[str]
    free_kib: int
    free_dest_kib: int
    is_one_disk: bool
    shares_blocks: bool


class _Sender:
    def __init__(
        self,
        transport: Transport,
        far: FarCommands,
        manifest: Manifest,
        blobs: BlobStore,
        dest: bytes,
        progress: Progress | None,
    ) -> None:
        self._transport = transport
        self._far = far
        self._manifest = manifest
        self._blobs = blobs
        self._dest = dest
        self._progress = progress
        # Empty files are made there; every other content has a key, and one file that it is the content of.
        self._contents = {_key(entry): entry for entry in manifest.files if entry.size}
        #: The name of the tree while it is not whole: short, because a tar header holds a hundred bytes.
        self._part = manifest.id[:20]
        self._word = hashlib.sha256(manifest.id.encode() + dest).hexdigest()[:32]
        self._copy_kib = _disk_kib(manifest.files)
        self._done = self._total = 0

    def run(self) -> None:
        for _ in range(ROUNDS_MAX):
            missing = self._ask()
            if missing is not None and missing.is_one_disk and self._lack(missing) is not None:
                # What is kept for later jobs makes room.
                sweep(self._transport, self._far, 0)
                missing = self._ask()
            if missing is None:
                return
            if (failure := self._lack(missing)) is not None:
                raise failure
            sizes = {key: self._contents[key].size for key in missing.keys}
            self._total = sum(sizes.values())
            for key, size in sizes.items():
                if size >= LARGE_BYTES:
                    self._send_large(key)
            if self._build([key for key, size in sizes.items() if size < LARGE_BYTES]):
                return
        raise TransferFailed(f"{self._place()} cannot be sent: contents vanish there while they are sent")

    def _place(self) -> str:
        return f"the tree for {shown(self._dest)}"

    def _ask(self) -> _Missing | None:
        """Have the tree made of what is there; None if that was enough."""
        with self._talk("ask", self._manifest.id, self._word, self._part) as talk:
            talk.say(quoted(self._dest) + b"%d\n" % self._copy_kib)
            words = talk.hear(WORK_S)
            if words == ["done"]:
                return None
            if words[0] == "full" and len(words) == 2 and words[1].isdigit():
                raise self._no_space(self._copy_kib, int(words[1]))
            if words != ["need"]:
                raise unexpected(words)
            talk.say(b"".join(b"%s %d\n" % (key.encode(), each.size) for key, each in self._contents.items()))
            talk.end()
            return self._read_missing(talk)

    def _read_missing(self, talk: Conversation) -> _Missing:
        free = talk.hear(WORK_S)
        if len(free) != 6 or free[0] != "free" or not (free[1].isdigit() and free[3].isdigit()):
            raise unexpected(free)
        keys = []
        while (words := talk.hear(WORK_S)) != ["end"]:
            if len(words) != 2 or words[0] != "miss" or words[1] not in self._contents:
                raise unexpected(words)
            keys.append(words[1])
        if len(set(keys)) != len(keys):
            raise unexpected(keys[:1])
        return _Missing(keys, int(free[1]), int(free[3]), free[2] == free[4], free[5] == "1")

    def _lack(self, missing: _Missing) -> TransferFailed | None:
        """Return the error if the contents and the copy for the job do not fit; None if they do."""
        kept = _disk_kib([self._contents[key] for key in missing.keys])
        if missing.is_one_disk:
            kept += 0 if missing.shares_blocks else self._copy_kib
        elif missing.free_dest_kib < self._copy_kib:
            return self._no_space(self._copy_kib, missing.free_dest_kib)
        return self._no_space(kept, missing.free_kib) if missing.free_kib < kept else None

    def _no_space(self, needs_kib: int, has_kib: int) -> TransferFailed:
        needs, has = (f"{kib / 1024:,.0f} MiB" for kib in (needs_kib, has_kib))
        return TransferFailed(f"the disk there is too full: needs {needs}, has {has} free in {shown(self._dest)}")

    def _send_large(self, key: str) -> None:
        """Send one content in a stream of its own, from where the last try was cut."""
        entry = self._contents[key]
        with self._talk("part", key, str(entry.size)) as talk:
            words = talk.hear(WORK_S)
            if words == ["whole"]:
                self._advance(entry.size)
                return
            if len(words) != 2 or words[0] != "from" or not words[1].isdigit() or int(words[1]) > entry.size:
                raise unexpected(words)
            offset = int(words[1])
            self._advance(offset)
            for chunk in self._blobs.read(entry.hash, entry.size, offset):
                talk.say(chunk)
                self._advance(len(chunk))
            talk.end()
            words = talk.hear(WORK_S)
            if words != ["done"]:
                raise unexpected(words)

    def _build(self, keys: list[str]) -> bool:
        """Send the small contents and the tree itself; return False if a content has vanished there."""
        with self._talk("build", self._manifest.id, self._word, self._part) as talk:
            try:
                talk.say(quoted(self._dest))
                for data in _gathered(self._archive(keys)):
                    talk.say(data)
                talk.end()
                words = talk.hear(WORK_S)
            except EarlyAnswer as early:  # another session has sent the same tree meanwhile
                words = early.words
            if words == ["again"]:
                return False
            if words != ["done"]:
                raise unexpected(words)
            return True

    def _archive(self, keys: list[str]) -> Iterator[bytes]:
        """Yield an archive: contents that are missing, and then the tree as links to contents."""
        root = b"part/" + self._part.encode()
        new = set(keys)
        for key in keys:
            entry = self._contents[key]
            mode = 0o700 if entry.kind == PROGRAM else 0o600
            yield tar_format.encode(
                Header(b"%s/new/%s" % (root, key.encode()), tar_format.REGULAR, entry.size, b"", mode)
            )
            yield from self._content(entry)
            self._advance(entry.size)
        uses: Counter[str] = Counter()
        for entry in self._manifest.entries:
            name = b"%s/tree/%s" % (root, entry.path)
            if entry.kind == FOLDER:
                yield tar_format.encode(Header(name + b"/", tar_format.FOLDER, mode=0o700))
            elif entry.is_file:
                key = _key(entry)
                uses[key] += 1
                if not entry.size or uses[key] > LINKS_MAX:
                    mode = 0o700 if entry.kind == PROGRAM else 0o600
                    yield tar_format.encode(Header(name, tar_format.REGULAR, entry.size, b"", mode))
                    yield from self._content(entry)
                else:
                    content = b"%s/new/%s" % (root, key.encode()) if key in new else b"blobs/" + key.encode()
                    yield tar_format.encode(Header(name, tar_format.HARD_LINK, link=content))
        yield from self._links(root)
        yield tar_format.encode(Header(root + b"/whole", tar_format.REGULAR)) + tar_format.END

    def _content(self, entry: Entry) -> Iterator[bytes]:
        if entry.size:
            yield from self._blobs.read(entry.hash, entry.size)
            yield tar_format.padding(entry.size)

    def _links(self, root: bytes) -> Iterator[bytes]:
        """Yield the symbolic links as an archive of their own: they are made in each copy, never followed."""
        links = [entry for entry in self._manifest.entries if entry.kind == LINK]
        if links:
            headers = [Header(b"./" + each.path, tar_format.SYMLINK, link=each.target, mode=0o777) for each in links]
            archive = b"".join(map(tar_format.encode, headers)) + tar_format.END
            yield tar_format.encode(Header(root + b"/links.tar", tar_format.REGULAR, len(archive)))
            yield archive + tar_format.padding(len(archive))

    def _talk(self, *args: str) -> Conversation:
        failed = f"{self._place()} cannot be made there"
        return Conversation(self._transport, self._far, failed, "receive", *args)

    def _advance(self, size: int) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self._total)


def _key(entry: Entry) -> str:
    return entry.hash + ("x" if entry.kind == PROGRAM else "")


def _disk_kib(entries: list[Entry]) -> int:
    return sum(-(-entry.size // DISK_BLOCK) * DISK_BLOCK for entry in entries) // 1024


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in few pieces: an archive has a thousand small ones for each that is worth a write."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def prune(transport: Transport, far: FarCommands, tree: bytes, paths: Iterable[bytes]) -> None:
    """Remove these files and folders of a job's tree there if they are as they were sent; children come first."""
    with Conversation(transport, far, f"{shown(tree)} cannot be tidied up there", "receive", "prune") as talk:
        talk.say(quoted(tree))
        for data in _gathered(b"./%s\0" % path for path in paths):
            talk.say(data)
        talk.end()
        if (words := talk.hear(WORK_S)) != ["done"]:
            raise unexpected(words)


def sweep(transport: Transport, far: FarCommands, most_bytes: int = FAR_BYTES_MAX) -> int:
    """Remove what was not used for longest on the far side until its cache has this size; return the size it has."""
    bounds = str(most_bytes // 1024), str(FAR_TREES_MAX)
    with Conversation(transport, far, "old files cannot be removed there", "receive", "sweep", *bounds) as talk:
        words = talk.hear(WORK_S)
    if len(words) != 2 or words[0] != "left" or not words[1].isdigit():
        raise unexpected(words)
    return int(words[1]) * 1024
