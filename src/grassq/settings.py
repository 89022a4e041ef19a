"""Settings: defaults, then the home's grass.toml, then GRASS_* variables, then flags. One frozen value, made once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from grassq.core.names import is_name, shown
from grassq.core.notices.rules import RULES_MAX, NotifyRule
from grassq.core.syntax.addresses import PORT_MAX
from grassq.core.syntax.options import closest
from grassq.errors import BadInput

FILE_NAME = "grass.toml"
STORE_MEMORY = "memory"
#: A worker uses three quarters of a lease; the rest must be longer than a frozen broker may still confirm.
LEASE_MIN_S = 20.0
PROBE_MAX_S = 86400.0
_TABLE_LINE = re.compile(r"\s*\[+\s*[\"']?(\w+)")
_KEY_LINE = re.compile(r"\s*[\"']?(\w+)[\"']?\s*[.=]")


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set; docs/reference/settings.md is made from this."""

    #: Where jobs are kept: empty for SQLite in the home, "memory" for nowhere, sqlite:PATH, or postgresql://...
    store: str = ""
    #: What the machine has, as JSON5; empty to detect it.
    capacity: str = ""
    #: The request of a job that names no amount, as JSON5.
    default_request: str = "{cpu: 1}"
    #: How many jobs of equal priority may pass the first blocked job of a queue before room is kept from them too.
    passes: int = 64
    #: How many seconds the first blocked job of a queue waits before room is kept from jobs of equal priority too.
    patience_s: float = 600.0
    #: How many seconds a worker may be silent before a job with `--on-lost requeue` is started elsewhere; at least 20.
    lease_s: float = 300.0
    #: How many unfinished jobs a submit token may have.
    token_jobs: int = 100_000
    #: How many MiB the unfinished jobs of a submit token may take in the store.
    token_mib: int = 256
    #: The highest priority a submit token may give to a job, unless the token was made with another one.
    token_priority_max: int = 30
    #: More names this broker answers to when it is bound, separated by commas.
    hosts: str = ""
    #: The most that a log takes of the disk, unless its job has a --log-max: the middle of a longer log is cut out and
    #: marked. "none" is no limit. With --split it holds for out and err each.
    log_max: str = "2G"
    #: Ended jobs are removed with their logs and files that long after their end, such as "30d"; empty: never.
    keep: str = ""
    #: Of the ended jobs, the oldest beyond this number are removed; 0 keeps all.
    keep_jobs: int = 0
    #: The oldest ended jobs are removed when the folders of all take more of the disk, such as "50G"; empty: never.
    keep_disk: str = ""
    #: With less than this free on the disk of its home, a worker starts no new job until there is room again: a size
    #: such as 5G, a part such as 2%, "auto" for the smaller of 1G and 1%, or "none".
    disk_floor: str = "auto"
    #: How many MiB of logs a broker keeps of jobs that ran on other machines.
    log_cache_mib: int = 1024
    #: How many MiB of files that jobs are sent a broker keeps; what an unfinished job or the last day needs stays.
    sent_files_mib: int = 20_480
    #: The program that reaches machines over ssh: OpenSSH's, or one that takes the same words.
    ssh: str = "ssh"
    #: How often, in seconds, machines over ssh are asked what others use there; 0 asks once per connection.
    probe_s: float = 10.0
    #: The port on 127.0.0.1 at which `grass web` opens the page; if it is taken, the next free one.
    web_port: int = 7580
    #: The hosts, separated by commas, to which jobs of tokens may send notices over https; empty for none.
    token_notify: str = ""
    #: The project of a job that names none; the variable GRASS_PROJECT of the command that submits the job comes first.
    project: str = ""
    #: The targets that are told when jobs end: tables `[[notify]]` in the file, see below.
    notify: tuple[NotifyRule, ...] = ()

    def __post_init__(self) -> None:
        if not self.lease_s >= LEASE_MIN_S:
            raise ValueError(f"lease_s must be at least {LEASE_MIN_S:g}: heartbeats and a takeover have to fit into it")
        if self.keep_jobs < 0:
            raise ValueError("keep_jobs must be 0 or more")
        if not 0.0 <= self.probe_s <= PROBE_MAX_S:
            raise ValueError(f"probe_s must be from 0 to {PROBE_MAX_S:g} seconds")
        if self.project and not is_name(self.project):
            raise ValueError(f"project: {shown(self.project)} cannot be the name of a project")
        if not 0 < self.web_port <= PORT_MAX:
            raise ValueError(f"web_port must be from 1 to {PORT_MAX}")
        if len(self.notify) > RULES_MAX:
            raise ValueError(f"there are {len(self.notify)} [[notify]] tables; {RULES_MAX} is the most")


#: Settings that are tables in the file; they have no variable.
TABLES = ("notify",)
#: Settings whose variable is read from the environment of each command, not from the daemon's.
OF_COMMANDS = ("project",)


class Origin(Struct, frozen=True):
    """Where the value of a setting comes from, and the line of the file or the name of the variable or option."""

    kind: Literal["default", "file", "environment", "flag"]
    where: str = ""


def load(home: str, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Return the settings in force."""
    return trace(home, environ, flags)[0]


def trace(home: str, environ: Mapping[str, str], flags: Mapping[str, object]) -> tuple[Settings, dict[str, Origin]]:
    """Return the settings in force, and by name where each comes from."""
    path = Path(home) / FILE_NAME
    values, lines = _from_file(path)
    origins = dict.fromkeys(Settings.__struct_fields__, Origin("default"))
    origins |= {name: Origin("file", f"{path}:{lines[name]}" if name in lines else str(path)) for name in values}
    for name in Settings.__struct_fields__:
        text = environ.get(variable(name))
        if text is not None and name not in (*TABLES, *OF_COMMANDS):
            values[name], origins[name] = text, Origin("environment", variable(name))
    for name, value in flags.items():
        if value is not None:
            values[name], origins[name] = value, Origin("flag", f"--{name}")
    try:
        return msgspec.convert(values, Settings, strict=False), origins
    except msgspec.ValidationError as error:
        cause = str(error).replace("`$.", "`")
        raise BadInput(f"a setting is wrong: {cause}; see {FILE_NAME} in {home}, and GRASS_* variables") from None


def variable(name: str) -> str:
    """Return the variable of the environment that sets a setting."""
    return f"GRASS_{name.upper()}"


def _from_file(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the values of the file, and the line on which each of them begins."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError, RecursionError) as error:
        # Also of text that is not UTF-8 or not TOML, and of a number with thousands of digits.
        raise BadInput(f"{path} cannot be read: {error}") from None
    for name in values:
        if name not in Settings.__struct_fields__:
            near = closest(name, Settings.__struct_fields__)
            hint = f"did you mean {near}?" if near else "`grass config show` lists the settings"
            raise BadInput(f"{path} has {shown(name)}, not a setting; {hint}")
    return values, _lines(text)


def _lines(text: str) -> dict[str, int]:
    """Return the first line of each setting in a file that tomllib has read; a text of several lines may mislead it."""
    found: dict[str, int] = {}
    is_top = True
    for number, line in enumerate(text.split("\n"), 1):
        if table := _TABLE_LINE.match(line):
            is_top = False
            found.setdefault(table[1], number)
        elif is_top and (key := _KEY_LINE.match(line)):
            found.setdefault(key[1], number)
    return found
