"""The targets a job may have: a job of the owner any, a job of a token only https URLs of allowed hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grassq.core.names import shown
from grassq.core.notices.targets import APPRISE_HINT, Target, host_of, masked, read_target
from grassq.errors import BadInput, Refused
from grassq.notify.senders import has_apprise
from grassq.web.requests import Submitter
from grassq.web.submit.program_check import ProgramCheck

_PLAIN_WORD = re.compile(rb"[\w./+-]+")


def hosts_of(setting: str) -> frozenset[str]:
    """Return the hosts that the setting `token_notify` names."""
    return frozenset(host.strip().lower() for host in setting.split(",") if host.strip())


def check_targets(texts: Sequence[str], submitter: Submitter, hosts: frozenset[str], programs: ProgramCheck) -> None:
    """Refuse targets that this submitter may not use, and targets that cannot be reached from here."""
    for text in texts:
        target = read_target(text)
        if submitter.is_remote:
            _check_right(target, hosts)
        elif target.kind == "apprise" and not has_apprise():
            raise BadInput(f"--notify {masked(target)} {APPRISE_HINT}")
        elif target.kind == "command" and not _may_run(target.text.encode(), submitter, programs):
            raise BadInput(
                f"--notify {shown(target.text)} is not a program; give a command, an http or https URL, or desktop"
            )


def _may_run(line: bytes, submitter: Submitter, programs: ProgramCheck) -> bool:
    """Tell whether a command may be one: a single word must be a program; more words only a shell can read."""
    if not _PLAIN_WORD.fullmatch(line):
        return True
    return programs.is_program(line, submitter.env.values, submitter.cwd)


def _check_right(target: Target, hosts: frozenset[str]) -> None:
    """Refuse what a token may not ask for: the broker would run a command, or send to any address it can reach."""
    if target.kind == "url" and target.text.lower().startswith("https://") and host_of(target) in hosts:
        return
    allowed = f"https URLs of {', '.join(sorted(hosts))} only" if hosts else "no --notify"
    raise Refused(f"a job from another machine may use {allowed}; the owner of the broker sets token_notify")
