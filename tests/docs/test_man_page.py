"""The man page: every command, option and setting is in it, and no man program complains about it."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess

import pytest
from tests.docs.blocks import ROOT

from docs import generate
from grassq.cli.main import parsers
from grassq.cli.manual.parsed import shown
from grassq.core.syntax import options
from grassq.core.syntax.commands import BY_NAME

PAGE = ROOT / "docs" / "reference" / "grass.1"


def rendered(width: int = 80) -> tuple[str, str]:
    """The page as `man` shows it without emphasis, and what `man` complains of."""
    if shutil.which("man") is None:
        pytest.skip("man is not installed; tests/needs.sh installs it")
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": str(width), "MAN_KEEP_FORMATTING": "", "HOME": "/"}
    argv = ["man", "--warnings", "--no-hyphenation", "-l", str(PAGE)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
    return re.sub(".\b", "", done.stdout), done.stderr


def test_man_renders_the_page_without_a_warning_and_with_every_command_option_and_setting() -> None:
    text, complaints = rendered(200)
    assert complaints == ""
    for name, parser in parsers():
        if name != BY_NAME[name].name:
            continue
        assert f"\n   grass {name}\n" in text
        if isinstance(parser, argparse.ArgumentParser):
            section = text.split(f"\n   grass {name}\n")[1].split("\n   grass ")[0]
            words = [word for action in shown(parser) for word in action.option_strings]
            assert not [word for word in words if word not in section], name
    assert not [key for key in options.ENQUEUE if key.decode() not in text]
    assert not [name for name, *_ in generate.declared() if f"\n       {name} = " not in text]


def test_what_is_typed_can_be_copied_from_the_page() -> None:
    text, _ = rendered(200)
    assert "\N{HYPHEN}" not in text and "\N{RIGHT SINGLE QUOTATION MARK}" not in text
    assert """seq 100000 | sed 's/^/python eval.py --seed /' | grass enqueue --gpu=0.1 --stdin""" in text
    assert """${{HOME}} becomes ${HOME}""" in text and "{gpu: 0.5, cpu: 4}" in text and "~/.local/state/grass" in text


def test_mandoc_has_no_complaint_either() -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed; tests/needs.sh installs it")
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", PAGE], capture_output=True, text=True, check=False)
    # The page has no date: it changes when the code does.
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []
