"""Writes docs/reference from the code: commands from their parsers, settings from their class, the API from its routes.

The man page is written there too, and the table of words for the shells into the package.

`make docs` runs it; a test fails when the files that are checked in differ from what it writes.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grassq import settings
from grassq.broker.decider import Decider
from grassq.broker.engine import Engine
from grassq.cli import help as texts
from grassq.cli.completion.table import table as completion_table
from grassq.cli.main import parsers
from grassq.cli.manual.page import man_page
from grassq.cli.manual.parsed import shown, spelled, synopsis
from grassq.core.notices.rules import OCCASIONS, NotifyRule
from grassq.core.syntax.commands import BY_NAME
from grassq.daemon.context import SystemClock
from grassq.store.sqlite import MEMORY, SqliteStore
from grassq.web.access.auth import Guard, Route
from grassq.web.app import Api
from grassq.web.openapi.page import http_page
from grassq.web.openapi.serve import openapi_bytes
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.registry import WorkerRegistry

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Made by docs/generate.py (`make docs`); edits here are lost. -->"
OPENAPI = ROOT / "docs" / "reference" / "openapi.json"
TYPES = ROOT / "webui" / "src" / "api" / "schema.d.ts"
TYPES_MADE = ROOT / "webui" / "node_modules" / ".types-made"
TYPES_TOOL = ROOT / "webui" / "node_modules" / ".bin" / "openapi-typescript"
#: What the page about the API says before the routes.
INTRODUCTION = ROOT / "docs" / "http_introduction.txt"
_COMMENT = re.compile(r"((?:^    #: .*\n)+)^    (\w+): ([\w\[\], .|]+) = (.*)$", re.MULTILINE)


def main() -> int:
    """Write every page anew, and the types of the web page where npm's packages are there."""
    for name, content in pages().items():
        (ROOT / name).write_text(content, encoding="utf-8")
    if TYPES_TOOL.exists() and (not TYPES_MADE.exists() or TYPES_MADE.read_bytes() != _types_digest()):
        subprocess.run(["npm", "run", "--silent", "types"], cwd=ROOT / "webui", check=True)
        TYPES_MADE.write_bytes(_types_digest())
    return 0


def _types_digest() -> bytes:
    """What the types were made of, and what they are: another of them is made anew."""
    found = [path.read_bytes() if path.exists() else b"" for path in (OPENAPI, TYPES)]
    return hashlib.sha256(b"\0".join(found)).digest()


def pages() -> dict[str, str]:
    """Every file with its content."""
    api = openapi_bytes(route_table()).decode()
    return {
        "docs/reference/openapi.json": api,
        "docs/reference/http.md": http_page(f"{NOTE}\n\n{INTRODUCTION.read_text(encoding='utf-8').strip()}", api),
        "docs/reference/commands.md": commands(),
        "docs/reference/settings.md": settings_page(),
        "docs/reference/grass.1": man_page(declared()),
        "src/grassq/cli/completion/table.tsv": completion_table(),
    }


def route_table() -> list[Route]:
    """The routes of a broker that serves nothing."""
    engine = Engine(lambda: Decider(SqliteStore(MEMORY), SystemClock(), incarnation="none"))
    nobody: Any = None
    api = Api(
        engine,
        WorkerDirectory(WorkerRegistry(engine)),
        (),
        lambda: None,
        {},
        guard=Guard(),
        link=nobody,
        check_files=lambda send, fetch: None,
    )
    asyncio.run(engine.close())
    return api.routes()


def commands() -> str:
    """The page of all commands, in the order of `grass help`."""
    parts = [NOTE, "# Commands", f"```text\n{texts.overview().rstrip()}\n```"]
    for name, parser in parsers():
        command = BY_NAME[name]
        if name != command.name:
            continue
        parts.append(f"## grass {name}")
        if command.aliases:
            parts.append("Also: " + ", ".join(f"`grass {alias}`" for alias in command.aliases) + ".")
        if isinstance(parser, str):
            parts.append(f"```text\n{parser.rstrip()}\n```")
        else:
            parts += [parser.description or "", f"    {synopsis(parser)}", _table(parser)]
            if parser.epilog:
                parts.append(f"```text\n{parser.epilog.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """The page of all settings."""
    rows = [
        f"| `{name}` | {_variable(name)} | {_cell(kind)} | `{default}` | {_cell(text)} |"
        for name, kind, default, text in declared()
    ]
    intro = (
        f"Read once when the daemon starts: the defaults below, then `{settings.FILE_NAME}` in the home, then the"
        " variables of the environment it was started in, then the options of `grass daemon`. What comes later wins."
        " `grass restart` reads them again; jobs keep running. `grass config show --origin` lists them, where each"
        " comes from, and what the running daemon has not read yet."
    )
    head = ["| setting | variable | type | default | meaning |", "|---|---|---|---|---|"]
    home = (
        "`GRASS_HOME` is not a setting but the place of everything; without it the home is `$XDG_STATE_HOME/grass`,"
        " else `~/.local/state/grass`."
    )
    parts = [NOTE, "# Settings", intro, "\n".join([*head, *rows]), home, "## Rules of notices", *_notify_rules()]
    return "\n\n".join(parts) + "\n"


def _variable(name: str) -> str:
    return "none" if name in settings.TABLES else f"`{settings.variable(name)}`"


def _notify_rules() -> list[str]:
    """The keys of a `[[notify]]` table, and what can be told."""
    keys = ", ".join(f"`{name}`" for name in NotifyRule.__struct_fields__)
    occasions = ", ".join(f"`{word}`" for word in OCCASIONS)
    example = '[[notify]]\non = ["failed", "sweep"]\nto = "https://ntfy.sh/my-topic"\nqueue = "gpu"'
    text = (
        f"Each `[[notify]]` table of `{settings.FILE_NAME}` is a rule. Its keys are {keys}; the last two are optional."
        f" `on` lists occasions: {occasions}. [Be told when it is over](../howto/notices.md) explains them."
    )
    return [text, f"```toml\n{example}\n```"]


def declared() -> Iterator[tuple[str, str, str, str]]:
    """Each setting with its type, its default and the comment above it, from the source."""
    for comment, name, kind, default in _COMMENT.findall(inspect.getsource(settings.Settings)):
        yield name, kind, default, " ".join(line.strip().removeprefix("#: ") for line in comment.splitlines())


def _table(parser: argparse.ArgumentParser) -> str:
    rows = [f"| {_names(action)} | {_cell(action.help or '')} |" for action in shown(parser)]
    return "\n".join(["| argument | meaning |", "|---|---|", *rows]) if rows else "It takes no arguments."


def _names(action: argparse.Action) -> str:
    return ", ".join(f"`{spelled(action, name)}`" for name in action.option_strings) or f"`{action.metavar}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
