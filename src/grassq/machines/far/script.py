"""The script of the far side: its parts in one text, named by its contents."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from importlib import resources

#: The parts, in order: each defines functions, and the last one starts a verb.
PARTS = ("common.sh", "supervisor.sh", "limits.sh", "command.sh", "serve.sh", "files.sh", "main.sh")


@functools.cache
def text() -> bytes:
    """Return the whole script."""
    folder = resources.files(__package__)
    return b"".join(part.read_bytes() for name in PARTS if (part := folder / name).is_file())


@functools.cache
def name() -> str:
    """Return the name of the file there."""
    return f"far-{hashlib.sha256(text()).hexdigest()}.sh"


def installer(marker: str, folder: str, store: str, files: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Return a script for the stdin of `sh` that puts files into the `bin` of the far home: its begin, and the rest.

    The begin prints the marker, then `ok` and the far home, or `no` and a sentence. The files are text without NUL.
    """
    begin = _BEGIN % {b"marker": marker.encode(), b"home": f"{folder}/{store}".encode()}
    parts = []
    for file, content in files.items():
        words = {b"name": file.encode(), b"end": marker.encode(), b"content": content, b"size": b"%d" % len(content)}
        parts.append(_FILE % words)
    return begin, b"".join((*parts, _END))


_BEGIN = rb"""
umask 077
printf '\n%%s\n' %(marker)s
far_stop() { printf 'no %%s\n' "$1"; exit 1; }
cd "$HOME" 2>/dev/null || far_stop "the home directory '$HOME' cannot be entered"
[ -r /proc/self/stat ] && [ -r /proc/sys/kernel/random/boot_id ] ||
    far_stop "it has no /proc: only Linux machines can be used"
far_home=%(home)s
far_why=$(mkdir -p "$far_home/bin" "$far_home/jobs" 2>&1) || far_stop "$far_why"
"""

_FILE = rb"""
far_new=$far_home/bin/.%(name)s.$$
cat >"$far_new" 2>/dev/null <<'%(end)s'
%(content)s%(end)s
if [ "$(wc -c <"$far_new")" -ne %(size)s ]; then
    rm -f "$far_new"
    far_stop "$far_home/bin cannot be written; is the disk full?"
fi
mv -f "$far_new" "$far_home/bin/%(name)s" || far_stop "$far_home/bin cannot be written"
"""

_END = rb"""
printf 'ok %s\n' "$(cd "$far_home" && pwd -P)"
exit 0
"""
