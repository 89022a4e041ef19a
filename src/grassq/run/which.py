"""Find the program a command names, as the job itself would."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def places(word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> list[bytes]:
    """Return the paths the system tries for a first word, in order: on the job's PATH, unless the word is a path."""
    folders = [b""] if b"/" in word else env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    return [os.path.join(cwd, folder, word) for folder in folders]


def find(word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> bytes | None:
    """Return the file a first word stands for: on the job's PATH, then in its directory."""
    if b"/" not in word:
        for path in places(word, env, cwd):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    path = os.path.join(cwd, word)
    return path if _is_program(path) else None


def _is_program(path: bytes) -> bool:
    return os.path.isfile(path) and (os.access(path, os.X_OK) or path.endswith(b".py"))


def to_start(words: tuple[bytes, ...], env: Mapping[bytes, bytes], cwd: bytes) -> tuple[list[bytes], tuple[bytes, ...]]:
    """Return the files to try, in order, and the words to start: a script that is not executable runs under Python.

    Paths are as seen from `cwd`.
    """
    if b"/" in words[0] and not words[0].endswith(b".py"):
        return [words[0]], words
    found = find(words[0], env, cwd)
    if found is None:
        return places(words[0], env, cwd), words
    if found.endswith(b".py") and not os.access(found, os.X_OK):
        python = _python(env, cwd)
        return ([python] if b"/" in python else places(python, env, cwd)), (python, found, *words[1:])
    # A program of the directory that is not on the PATH is given its path: it would not find itself by its name.
    is_near = b"/" not in words[0] and os.path.dirname(found) == cwd.rstrip(b"/")
    return [found], ((found, *words[1:]) if is_near else words)


def _python(env: Mapping[bytes, bytes], cwd: bytes) -> bytes:
    for name in (b"python", b"python3"):
        found = find(name, env, cwd)
        if found is not None:
            return found
    return b"python3"
