"""The command lines of ssh: which options win over the user's own configuration, and which are left to it."""

from __future__ import annotations

from pathlib import Path

from grassq.machines.ssh.target import SshTarget

#: How long ssh may take for a TCP connection and for the server's first words.
CONNECT_TIMEOUT_S = 10
#: How often the ssh process asks the server for a sign of life, and how many may be missing: dead after about 45 s.
ALIVE_INTERVAL_S = 15
ALIVE_COUNT = 3
#: The options that win over the user's configuration. Each is known to OpenSSH 7.6 and newer.
_OURS = (
    "BatchMode=yes",  # no questions: a daemon has no terminal
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "UpdateHostKeys=no",  # known_hosts is the user's
    "EscapeChar=none",
    "LogLevel=INFO",  # the causes of a lost connection are said on this level; more is noise
    f"ConnectTimeout={CONNECT_TIMEOUT_S}",
    "ConnectionAttempts=1",  # when to try again is decided by Backoff
    f"ServerAliveInterval={ALIVE_INTERVAL_S}",
    f"ServerAliveCountMax={ALIVE_COUNT}",
    "NumberOfPasswordPrompts=0",
    "ControlMaster=yes",
    "ControlPersist=no",  # else ssh goes to the background, and its parent cannot wait for it
)


def master_argv(program: str, target: SshTarget, control: str, *, agent: str | None, new_key: bool) -> list[str]:
    """Return the command that logs in and stays: it runs nothing there, and gives sessions to its control socket."""
    checking = "accept-new" if new_key else "yes"
    return [
        # A desktop's window that asks for a password would come up at each try; a jump host's ssh would open it.
        *("env", "SSH_ASKPASS_REQUIRE=never", *([f"SSH_AUTH_SOCK={agent}"] if agent is not None else [])),
        *(program, "-N", "-T", "-S", control),
        *_each((*_OURS, f"StrictHostKeyChecking={checking}")),
        *_way(target),
        *("--", target.host),
    ]


def settings_argv(program: str, target: SshTarget) -> list[str]:
    """Return the command that prints the user's configuration for a machine, a setting in each line."""
    return [program, "-G", *_way(target), "--", target.host]


def person_argv(program: str, target: SshTarget, control: str | None, command: tuple[str, ...]) -> list[str]:
    """Return the command of a person at a terminal: as the person's own ssh, over the master where there is one."""
    shared = ["-o", "ControlMaster=no", "-S", control] if control else []
    return [program, "-t", *shared, *_way(target), "--", target.host, *command]


def _each(options: tuple[str, ...]) -> list[str]:
    return [word for option in options for word in ("-o", option)]


def _way(target: SshTarget) -> list[str]:
    words = []
    if target.key is not None:
        # ssh expands %-sequences of a key's path.
        words += ["-i", str(Path(target.key).expanduser()).replace("%", "%%"), "-o", "IdentitiesOnly=yes"]
    if target.user is not None:
        words += ["-l", target.user]
    if target.port is not None:
        words += ["-p", str(target.port)]
    return words
