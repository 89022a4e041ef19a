"""Why a login failed, in words for people: read from what ssh says, which is English always."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import NamedTuple

from grassq.core.printable import printable
from grassq.errors import EXIT_UNREACHABLE, GrassError
from grassq.machines.ssh.target import SshTarget

#: The longest line of ssh that a message repeats, in characters.
LINE_MAX = 300


class LoginFailed(GrassError):
    """A machine could not be logged in to; the message says why and what to do."""

    exit_code = EXIT_UNREACHABLE

    def __init__(
        self,
        words: str,
        *,
        needs_person: bool = False,
        is_turned_away: bool = False,
        is_unknown_key: bool = False,
        is_denied: bool = False,
    ) -> None:
        super().__init__(words)
        #: Trying again cannot help until a person has changed something.
        self.needs_person = needs_person
        #: The server or a firewall counts tries: the next try has to come late.
        self.is_turned_away = is_turned_away
        #: The host key was never seen: a person may look at it and accept it.
        self.is_unknown_key = is_unknown_key
        #: The server knows none of our keys.
        self.is_denied = is_denied


class _Cause(NamedTuple):
    """A line of ssh, and what it means: words of the machine, of the line, and of everything that ssh said."""

    pattern: re.Pattern[str]
    words: Callable[[SshTarget, re.Match[str], str], str]
    needs_person: bool = False
    is_turned_away: bool = False


def agent_gone(denied: LoginFailed, agent: str) -> LoginFailed:
    """Return the failure of a login without the agent that had the key."""
    return LoginFailed(
        f"{denied}. Also, the ssh agent at {agent} does not answer, as after its user has logged out: "
        "in a shell with a running agent, grass machine test tries again with its keys",
        needs_person=denied.needs_person,
    )


def keys_not_kept(target: SshTarget) -> LoginFailed:
    """Return the failure of a login whose host key cannot become known."""
    return LoginFailed(
        f"the host key of {target.shown} cannot be checked: your ssh configuration has UserKnownHostsFile /dev/null, "
        "so no key is ever known. Grass logs in to machines with known keys only: "
        "write a block for this host into ~/.ssh/config that names a file",
        needs_person=True,
    )


def login_failure(target: SshTarget, said: str) -> LoginFailed:
    """Return the failure that ssh describes with these lines on its stderr."""
    lines = "\n".join(printable(line, LINE_MAX) for line in said.splitlines() if line.strip())
    for cause in _CAUSES:
        if found := cause.pattern.search(lines):
            words = cause.words(target, found, lines)
            return LoginFailed(
                words,
                needs_person=cause.needs_person,
                is_turned_away=cause.is_turned_away,
                is_unknown_key=cause.words is _unknown_key,
                is_denied=cause.words is _denied,
            )
    last = lines.rpartition("\n")[2] or "it said nothing"
    # What is not known here may well be a server that turns us away: the next try comes late.
    return LoginFailed(f"ssh could not log in to {target.shown}: {last}. {_try(target)}", is_turned_away=True)


def _by_hand(target: SshTarget, *options: str) -> str:
    """Return the ssh command line of a person, without the command there."""
    words = ["ssh", *options]
    if target.key is not None:
        words += ["-i", target.key]
    if target.port is not None:
        words += ["-p", str(target.port)]
    return shlex.join([*words, f"{target.user}@{target.host}" if target.user else target.host])


def _try(target: SshTarget) -> str:
    """Say how a person sees the same failure."""
    return f"Try by hand: {_by_hand(target, '-o', 'BatchMode=yes')} true"


def _changed_key(target: SshTarget, found: re.Match[str], lines: str) -> str:
    words = (
        f"the host key of {target.shown} has changed: the machine was installed again, or another computer answers in "
        "its place. Nothing was sent to it."
    )
    known = re.search(r"^Offending .* key in (?P<file>.+):(?P<line>\d+)$", lines, re.M)
    name = re.search(r"^Host key for (\S+) has changed", lines, re.M)
    if known is None or name is None:
        return f"{words} If you know why, remove the old key with ssh-keygen -R, and log in once by hand"
    remove = shlex.join(["ssh-keygen", "-f", known["file"], "-R", name[1]])
    return (
        f"{words} The old key is line {known['line']} of {known['file']}. If you know why it changed, run: {remove}; "
        f"then accept the new key: {_by_hand(target)}"
    )


def _unknown_key(target: SshTarget, found: re.Match[str], lines: str) -> str:
    return (
        f"the host key of {found['name']} is not in your known_hosts yet, and it is not trusted unseen. "
        f"Accept it once: {_by_hand(target)}, or grass machine add --accept-key"
    )


def _denied(target: SshTarget, found: re.Match[str], lines: str) -> str:
    unusable = re.search(r'^Load key "(?P<key>.+)": (?P<why>.+)$', lines, re.M)
    key = f" The key {unusable['key']} could not be used: {unusable['why']}." if unusable else ""
    return (
        f"the login to {target.shown} is refused: {found[0]}.{key} ssh must get in without a question: "
        f"with a key in an agent, or a key without a passphrase. {_try(target)}"
    )


def _said(what: str) -> Callable[[SshTarget, re.Match[str], str], str]:
    """Return words that name the machine, repeat the line of ssh, and say how to see it by hand."""

    def words(target: SshTarget, found: re.Match[str], lines: str) -> str:
        return f"{what.format(target.shown)}: {found[0].rstrip('.')}. {_try(target)}"

    return words


def _cause(
    pattern: str,
    words: Callable[[SshTarget, re.Match[str], str], str],
    *,
    needs_person: bool = False,
    is_turned_away: bool = False,
) -> _Cause:
    return _Cause(re.compile(pattern, re.MULTILINE), words, needs_person, is_turned_away)


#: In this order: what ssh says last is often only the consequence. Each pattern is a whole line as ssh writes it, so
#: that words of a server's banner are not taken for it.
_CAUSES = (
    _cause(r"^@ +WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! +@$", _changed_key, needs_person=True),
    _cause(
        r"^@ +WARNING: REVOKED HOST KEY DETECTED! +@$",
        _said("the host key of {} is marked as revoked in your known_hosts"),
        needs_person=True,
    ),
    _cause(
        r"^No \S+ host key is known for (?P<name>\S+) and you have requested strict checking\.$",
        _unknown_key,
        needs_person=True,
    ),
    _cause(
        r"^Host key verification failed\.$",
        _said("the host key of {}, or of a jump host on the way, is not accepted"),
        needs_person=True,
    ),
    _cause(
        r"^(?:/.+ line \d+: .*|Bad owner or permissions on .*|command-line: .*|Can't open user config file .*)$",
        _said("ssh cannot read its configuration for {}"),
        needs_person=True,
    ),
    _cause(
        r"^(?:hostname|remote username) contains invalid characters$",
        _said("ssh refuses the name {}"),
        needs_person=True,
    ),
    _cause(
        r"^(?:Received disconnect from .*: )?(?:.*: )?Too many authentication failures$",
        _said("{} was offered too many keys; name the right key with --key or IdentityFile"),
        needs_person=True,
    ),
    _cause(r"^\S+: Permission denied \([a-z0-9,-]*\)(?=\.$)", _denied, needs_person=True),
    _cause(r"^Unable to negotiate with .*$", _said("{} and this ssh have no algorithm in common"), needs_person=True),
    _cause(
        r"^(?:ControlPath too long|unix_listener: |muxserver_listen: |ControlSocket ).*$",
        _said("ssh could not make its control socket for {}"),
        needs_person=True,
    ),
    _cause(
        r"^ssh: Could not resolve hostname .*$",
        _said("no machine is found by the name of {}; is the name right, and is the network (VPN) up"),
    ),
    _cause(r"^ssh: connect to host .* port \d+: .*$", _said("{} cannot be reached")),
    _cause(r"^channel \d+: open failed: .*$", _said("the jump host could not reach {}")),
    _cause(
        r"^(?:Connection timed out during banner exchange|Connection to \S+ port \d+ timed out)$",
        _said("{} accepts connections and says nothing"),
    ),
    _cause(
        r"^(?:kex_exchange_identification: .*|Not allowed at this time|"
        r"(?:ssh_dispatch_run_fatal: )?Connection (?:to|from|closed by|reset by) .* port \d+.*|"
        r"Received disconnect from .*)$",
        _said(
            "{} closed the connection before the login: the line broke, too many log in, "
            "or it shuts this address out for a time"
        ),
        is_turned_away=True,
    ),
)
