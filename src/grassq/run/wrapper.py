"""The wrapper of a job's command: a shell script that first makes the environment which the job asks for.

The wrapper is part of the attempt: it is supervised, its output is in the log, and it ends with the job. It needs
nothing on a machine but a POSIX shell. `wrapper.sh` is its text.
"""

from __future__ import annotations

import re

from grassq import atomic_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPT_MAX = 64 << 10
#: The variable that brings the wrapper and the job's own variables through a login shell.
_THROUGH_LOGIN = b"GRASS_WRAPPER"

_SHELL = b"/bin/sh"
#: Starts the login shell. Every shell (sh, csh, fish) reads the line in it alike, and hands a variable on as it is.
_LOGIN = b"""grass_shell=${SHELL:-/bin/sh}
case $grass_shell in
*csh) exec "$grass_shell" -c 'exec /bin/sh -c '\\''eval "$GRASS_WRAPPER"'\\' ;;
*) exec "$grass_shell" -l -c 'exec /bin/sh -c '\\''eval "$GRASS_WRAPPER"'\\' ;;
esac
"""
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


def _script() -> bytes:
    text = atomic_files.read(__file__.rpartition("/")[0] + "/wrapper.sh", SCRIPT_MAX)
    assert text is not None, "wrapper.sh is a part of the package"
    return b"".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(b"#"))


_SCRIPT = _script()


def wrapped(
    command: Sequence[bytes],
    run_dir: bytes,
    setups: bytes,
    *,
    python: bytes | None = None,
    setup: bytes | None = None,
    files: Sequence[bytes] = (),
    login: Mapping[bytes, bytes | None] | None = None,
) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Return the words that make an environment and then run a command, and the variables they need.

    The command is at the end of the words. With `login` the environment begins with that of a login shell; what the
    files of the login shell set does not replace the variables in `login`, and those that are None there are unset.
    """
    words = [run_dir, setups, python or b"", setup or b"", b"%d" % len(files), *files, *command]
    if login is None:
        return [_SHELL, b"-c", _SCRIPT, b"grass", *words], {}
    own = [_assignment(name, value) for name, value in login.items() if _NAME.fullmatch(name)]
    text = b"unset %s\n%sset -- %s\n%s" % (_THROUGH_LOGIN, b"".join(own), b" ".join(map(quoted, words)), _SCRIPT)
    return [_SHELL, b"-c", _LOGIN, b"grass", *command], {_THROUGH_LOGIN: text}


def _assignment(name: bytes, value: bytes | None) -> bytes:
    return b"unset %s\n" % name if value is None else b"export %s=%s\n" % (name, quoted(value))


def quoted(word: bytes) -> bytes:
    """Return a word as a POSIX shell reads it."""
    return b"'%s'" % word.replace(b"'", b"'\\''")
