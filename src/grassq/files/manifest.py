"""A manifest names a tree by content: every folder, file and link of it, in one canonical text.

The text is one line per entry, in the order of the paths' bytes: a letter for the kind, the hash, the size and the
path, or the path and the target of a link. Bytes that are not plain are written as %XX. The SHA-256 of the text is the
id of the tree: equal trees have equal ids on every machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from grassq.errors import BadInput
from grassq.files.names import DEPTH_MAX, TARGET_BYTES_MAX, check_path, shown

#: How many folders, files and links one tree may have.
ENTRIES_MAX = 200_000
#: The bytes of all files of one tree.
BYTES_MAX = 1 << 40
#: The longest text of a manifest.
TEXT_BYTES_MAX = 64 << 20
#: How many links may follow each other, as in the kernel.
LINKS_MAX = 40

FOLDER, FILE, PROGRAM, LINK = b"d", b"f", b"x", b"l"

_HEAD = b"grass tree 1\n"
_HASH = re.compile(rb"[0-9a-f]{64}")
_ODD = re.compile(rb"[^A-Za-z0-9._/+=@,:~^#!$&()\[\]{}';-]")
_ESCAPED = re.compile(rb"%([0-9A-F]{2})")


class Entry(NamedTuple):
    """One path of a tree."""

    path: bytes
    #: FOLDER, FILE, PROGRAM (a file that may be executed) or LINK.
    kind: bytes
    size: int = 0
    #: The SHA-256 of a file's content in hex; empty for folders and links.
    hash: str = ""
    #: Where a link points to.
    target: bytes = b""

    @property
    def is_file(self) -> bool:
        """Whether the entry has content."""
        return self.kind in (FILE, PROGRAM)


class Manifest:
    """A tree: its entries in the order of their paths, folders before what lies in them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(sorted(entries))
        _check(self.entries)
        self.text = _HEAD + b"".join(map(_line, self.entries))
        if len(self.text) > TEXT_BYTES_MAX:
            raise BadInput(f"the names of the files take more than {TEXT_BYTES_MAX >> 20} MiB: {_NARROW}")
        self.id = hashlib.sha256(self.text).hexdigest()

    @property
    def files(self) -> list[Entry]:
        """The entries that have content."""
        return [entry for entry in self.entries if entry.is_file]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(entry.size for entry in self.entries)


_NARROW = "send a smaller folder, or name what is not needed in .grassignore"


def parse(text: bytes) -> Manifest:
    """Return the manifest of a text; BadInput if the text is not exactly what `Manifest.text` would be."""
    if len(text) > TEXT_BYTES_MAX or not text.startswith(_HEAD) or not text.endswith(b"\n"):
        raise BadInput("this is not a list of sent files")
    lines = text[len(_HEAD) :].split(b"\n")[:-1]
    if len(lines) > ENTRIES_MAX:
        raise BadInput(f"the list has more than {ENTRIES_MAX:,} files")
    manifest = Manifest(map(_parse_line, lines))
    if manifest.text != text:
        raise BadInput("the list of sent files is not in its one canonical form")
    return manifest


def _line(entry: Entry) -> bytes:
    path = _escape(entry.path)
    if entry.is_file:
        return b"%s %s %d %s\n" % (entry.kind, entry.hash.encode("ascii"), entry.size, path)
    if entry.kind == LINK:
        return b"%s %s %s\n" % (entry.kind, path, _escape(entry.target))
    return b"%s %s\n" % (entry.kind, path)


def _parse_line(line: bytes) -> Entry:
    words = line.split(b" ")
    kind = words[0]
    if kind == FOLDER and len(words) == 2:
        return Entry(_unescape(words[1]), kind)
    if kind == LINK and len(words) == 3:
        return Entry(_unescape(words[1]), kind, target=_unescape(words[2]))
    if kind in (FILE, PROGRAM) and len(words) == 4 and words[2].isdigit() and len(words[2]) < 20:
        return Entry(_unescape(words[3]), kind, int(words[2]), words[1].decode("ascii", "replace"))
    raise BadInput(f"the list of sent files has a line that is not understood: {shown(line)}")


def _escape(path: bytes) -> bytes:
    return _ODD.sub(lambda found: b"%%%02X" % found[0][0], path)


def _unescape(word: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), word)


def _check(entries: tuple[Entry, ...]) -> None:
    """Refuse a tree that is too large, or in which a path is wrong, twice, in no folder, or a link that leaves."""
    if len(entries) > ENTRIES_MAX:
        raise BadInput(f"the tree has more than {ENTRIES_MAX:,} files and folders: {_NARROW}")
    if sum(entry.size for entry in entries) > BYTES_MAX:
        raise BadInput(f"the tree has more than {BYTES_MAX >> 30:,} GiB: {_NARROW}")
    by_path = {entry.path: entry for entry in entries}
    if len(by_path) != len(entries):
        raise BadInput("a name is twice in the tree")
    for entry in entries:
        check_path(entry.path)
        _check_entry(entry)
        folder = entry.path.rpartition(b"/")[0]
        if folder and (folder not in by_path or by_path[folder].kind != FOLDER):
            raise BadInput(f"{shown(entry.path)} is in the tree without its folder")
        if entry.kind == LINK and leaves(entry.path, entry.target, by_path):
            raise BadInput(f"the link {shown(entry.path)} points out of the tree, to {shown(entry.target)}")


def _check_entry(entry: Entry) -> None:
    if entry.is_file:
        if not _HASH.fullmatch(entry.hash.encode("ascii", "replace")) or entry.size < 0:
            raise BadInput(f"{shown(entry.path)} has no valid hash or size")
    elif entry.size or entry.hash:
        raise BadInput(f"{shown(entry.path)} has a size, but no content")
    if entry.kind == LINK and (not entry.target or b"\0" in entry.target or len(entry.target) > TARGET_BYTES_MAX):
        raise BadInput(f"the link {shown(entry.path)} has no valid target")


def leaves(path: bytes, target: bytes, by_path: Mapping[bytes, Entry]) -> bool:
    """Tell whether a link of a tree leads out of it, followed as the kernel follows it.

    A path that only looks as if it stayed inside may leave: `sub/link/../x` with `sub/link -> ..` does.
    """
    if target.startswith(b"/"):
        return True
    place = path.split(b"/")[:-1]
    ahead = list(reversed(target.split(b"/")))
    hops = 0
    while ahead:
        part = ahead.pop()
        if part in (b"", b"."):
            continue
        if part == b"..":
            if not place:
                return True
            place.pop()
            continue
        place.append(part)
        # Nothing of a tree lies deeper: to look there would take a time that grows with the square of the depth.
        found = by_path.get(b"/".join(place)) if len(place) <= DEPTH_MAX else None
        if found is not None and found.kind == LINK:
            hops += 1
            if hops > LINKS_MAX:
                return False  # a circle: the kernel refuses to follow it
            if found.target.startswith(b"/"):
                return True
            place.pop()
            ahead.extend(reversed(found.target.split(b"/")))
    return False
