"""The environment of a job sent from another machine: the worker's own, without secrets."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping

from msgspec import Struct

from grassq.core.job_options import Pairs

# Names of secrets, by the words that they consist of, and variables of the login session that started the daemon.
# `create-queue --env NAME=value` gives such a variable to the jobs of a queue.
_SECRET_WORDS = frozenset(
    b"AUTH AUTHORIZATION COOKIE CREDENTIAL CREDENTIALS CREDS KEY KEYS PASS PASSFILE PASSPHRASE PASSWD PASSWORD PAT"
    b" PGPASSFILE PGPASSWORD PGSERVICEFILE PRIVATE PWD SECRET SECRETS TOKEN TOKENS XAUTHORITY".split()
)
_SECRET_ENDS = (b"PASSWORD", b"SECRET", b"TOKEN", b"APIKEY")
_SESSION = frozenset(
    b"_ DBUS_SESSION_BUS_ADDRESS DISPLAY GNUPGHOME GPG_AGENT_INFO INVOCATION_ID JOURNAL_STREAM KRB5CCNAME"
    b" LISTEN_FDNAMES LISTEN_FDS LISTEN_PID MAIL NOTIFY_SOCKET OLDPWD SHLVL SSH_AGENT_PID SSH_ASKPASS SSH_CLIENT"
    b" SSH_CONNECTION SSH_TTY SUDO_COMMAND WATCHDOG_PID WATCHDOG_USEC WAYLAND_DISPLAY XDG_RUNTIME_DIR"
    b" XDG_SESSION_ID".split()
)
# A password inside an address, as in postgresql://me:secret@host.
_SECRET_VALUE = re.compile(rb"://[^/?#\s@]*:[^/?#\s@]+@")


class DefaultEnvironment(Struct, frozen=True):
    """A worker's own environment, directory and umask."""

    env: Pairs = ()
    cwd: bytes = b"/"
    umask: int = 0o022


def of_this_process(env: Mapping[bytes, bytes], *, background: bool) -> DefaultEnvironment:
    """Return the environment of this process; call it before anything changes. In the background, `cwd` is the home."""
    umask = os.umask(0o077)
    os.umask(umask)
    home = env.get(b"HOME") or os.fsencode(pwd.getpwuid(os.getuid()).pw_dir)
    try:
        cwd = home if background else os.getcwdb()
    except FileNotFoundError:
        cwd = home
    return DefaultEnvironment(tuple(env.items()), cwd, umask)


def harmless(env: Pairs) -> Pairs:
    """Return a daemon's environment without secrets, for jobs of other users."""
    return tuple((name, value) for name, value in env if not _is_private(name.upper(), value))


def _is_private(name: bytes, value: bytes) -> bool:
    return (
        name in _SESSION
        or not _SECRET_WORDS.isdisjoint(re.split(rb"[^A-Z0-9]+", name))
        or name.endswith(_SECRET_ENDS)
        or _SECRET_VALUE.search(value) is not None
    )
