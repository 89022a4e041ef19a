"""What another machine sends is taken here: an archive that may be hostile, and a list of what was asked for.

No name of the archive is ever used as a name here. A file that was asked for has a name of our own in a private folder
until everything has come; what was not asked for, what is too long, and what never ends is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from grassq.atomic_files import OURS
from grassq.descriptors import write_all
from grassq.errors import GrassError
from grassq.files import tar_format
from grassq.files.names import TARGET_BYTES_MAX, shown
from grassq.files.tar_format import BLOCK, BadTar, Decoder, Header

CHUNK = 1 << 20
#: Blocks that carry no file: ends of archives, long names. An honest archive has a few for each file.
EXTRA_BLOCKS_MAX = 1000
EXTRA_BLOCKS_PER_FILE = 8
#: The bytes of the targets of all links: they are kept in memory until everything has come.
TARGETS_BYTES_MAX = 64 << 20


class BadArchive(GrassError):
    """The machine sends something else than it was asked for."""


class FileChanged(Exception):
    """A file was changed there after it was listed."""


class Wanted(NamedTuple):
    """One file that was asked for: its size, and the name it gets in the private folder."""

    size: int
    name: str
    mode: int


class Unpacker:
    """Takes archives one after another from a stream, until a block that begins with the word `end`."""

    def __init__(
        self,
        read: Callable[[int], bytes],
        wanted: Mapping[bytes, Wanted],
        links: frozenset[bytes],
        folder: int,
        end: bytes,
        advance: Callable[[int], None],
    ) -> None:
        self._read = read
        self._wanted = wanted
        self._links = links
        self._folder = folder
        self._end = end
        self._advance = advance
        self._came: set[bytes] = set()
        #: The symbolic links that came, with their targets as they were said.
        self.targets: dict[bytes, bytes] = {}
        self._targets_bytes = 0

    def run(self) -> bytes:
        """Take everything; return what follows the end word. What has come is whole in the folder, even on an error."""
        decoder = Decoder()
        extra = EXTRA_BLOCKS_MAX + EXTRA_BLOCKS_PER_FILE * (len(self._wanted) + len(self._links))
        while True:
            block = self._read(BLOCK)
            if block.startswith(self._end):
                return block[len(self._end) :].strip()
            try:
                header = decoder.block(block)
                if decoder.more:
                    decoder.extend(self._padded(decoder.more))
            except BadTar as error:
                raise BadArchive(f"the machine sends an archive that is damaged: {error}") from error
            if header is not None:
                self._take(header)
                continue
            extra -= 1
            if extra < 0:
                raise BadArchive("the machine sends an archive that has no end")

    def _padded(self, size: int) -> bytes:
        data = self._read(size)
        self._read(-size % BLOCK)
        return data

    def _take(self, header: Header) -> None:
        path = header.name.removeprefix(b"./")
        if path in self._came or (path not in self._wanted and path not in self._links):
            raise BadArchive(f"the machine sends {shown(header.name)}, which it was not asked for")
        self._came.add(path)
        if path in self._links:
            if header.kind != tar_format.SYMLINK:
                raise FileChanged(path)
            self._note_target(path, header.link)
        elif header.kind == tar_format.HARD_LINK:
            self._copy(path, header.link.removeprefix(b"./"))
        elif header.kind != tar_format.REGULAR or header.size != self._wanted[path].size:
            raise FileChanged(path)
        else:
            self._store(path)

    def _note_target(self, path: bytes, target: bytes) -> None:
        if len(target) > TARGET_BYTES_MAX:
            raise BadArchive(f"the machine sends {shown(path)} as a link with a target that no system takes")
        self._targets_bytes += len(target)
        if self._targets_bytes > TARGETS_BYTES_MAX:
            raise BadArchive(f"the targets of the links take more than {TARGETS_BYTES_MAX >> 20} MiB: fetch fewer")
        self.targets[path] = target

    def _store(self, path: bytes) -> None:
        wanted = self._wanted[path]
        with _new_file(self._folder, wanted) as fd:
            left = wanted.size
            while left:
                data = self._read(min(left, CHUNK))
                write_all(fd, data)
                left -= len(data)
                self._advance(len(data))
            self._read(-wanted.size % BLOCK)

    def _copy(self, path: bytes, first: bytes) -> None:
        """Make a file that is a second name of one that came before, as a file of its own."""
        wanted, other = self._wanted[path], self._wanted.get(first)
        if other is None or first == path or first not in self._came or other.size != wanted.size:
            raise BadArchive(f"the machine sends {shown(path)} as a link to what it was not asked for")
        source = os.open(other.name, os.O_RDONLY | OURS, dir_fd=self._folder)
        try:
            with _new_file(self._folder, wanted) as fd:
                while data := os.read(source, CHUNK):
                    write_all(fd, data)
                    self._advance(len(data))
        finally:
            os.close(source)


@contextmanager
def _new_file(folder: int, wanted: Wanted) -> Iterator[int]:
    """Open a file of the private folder to write it, and give it its name when it is whole."""
    aside = wanted.name + ".new"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OURS, wanted.mode, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)
    os.rename(aside, wanted.name, src_dir_fd=folder, dst_dir_fd=folder)
