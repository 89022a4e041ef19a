from __future__ import annotations

import argparse
import re

import pytest
from tests.docs.blocks import ROOT

from docs import generate
from grassq.cli import help as texts
from grassq.cli.main import parsers
from grassq.cli.manual.parsed import shown
from grassq.core.syntax import options
from grassq.core.syntax.commands import BY_NAME
from grassq.settings import TABLES, Settings

COMMANDS = (ROOT / "docs" / "reference" / "commands.md").read_text()
SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text()


@pytest.mark.parametrize("name", sorted(generate.pages()))
def test_what_is_generated_is_as_fresh_as_the_code(name: str) -> None:
    page = (ROOT / name).read_text()
    assert page == generate.pages()[name], "the code has changed since: `make docs`"


@pytest.mark.parametrize("name", [name for name, _ in parsers()])
def test_every_command_is_documented(name: str) -> None:
    assert f"## grass {BY_NAME[name].name}\n" in COMMANDS
    assert f"`grass {name}`" in COMMANDS or name == BY_NAME[name].name


@pytest.mark.parametrize(
    ("name", "parser"), [(name, parser) for name, parser in parsers() if isinstance(parser, argparse.ArgumentParser)]
)
def test_every_option_of_a_parsed_command_is_documented_with_a_meaning(
    name: str, parser: argparse.ArgumentParser
) -> None:
    section = COMMANDS.split(f"## grass {BY_NAME[name].name}\n")[1].split("\n## ")[0]
    for action in shown(parser):
        assert action.help, f"grass {name}: {action.dest} has no help"
        for word in action.option_strings or [str(action.metavar)]:
            assert re.search(rf"^\| .*`{re.escape(word)}( \S+)?`.* \| .+ \|$", section, re.MULTILINE), word


@pytest.mark.parametrize(
    ("name", "table"), [("enqueue", options.ENQUEUE), ("run", options.ENQUEUE), ("create-queue", options.CREATE_QUEUE)]
)
def test_every_option_the_daemon_reads_is_in_the_text_of_its_command(name: str, table: options.Table) -> None:
    for word in {key.decode() for key in table}:
        assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", texts.text_of(name)), f"{word} of grass {name}"


def test_every_setting_is_documented_with_its_default_and_a_meaning() -> None:
    assert [name for name, *_ in generate.declared()] == list(Settings.__struct_fields__)
    for name, _, default, meaning in generate.declared():
        assert meaning
        variable = "none" if name in TABLES else f"`GRASS_{name.upper()}`"
        assert f"| `{name}` | {variable} |" in SETTINGS
        assert f"`{default}`" in SETTINGS
