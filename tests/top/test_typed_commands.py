"""What may be typed after `:`: which commands change something, and which need the terminal."""

from __future__ import annotations

import pytest

from grassq.cli.top.line_input import changes, needs_terminal
from grassq.core.syntax.commands import BY_NAME, LOOKING

HARMLESS = {"audit", "doctor", "config", "completion"}


def test_only_commands_that_look_are_harmless() -> None:
    looking = {name for name, command in BY_NAME.items() if command.group == LOOKING}
    assert {name for name in BY_NAME if not changes([name])} == looking | HARMLESS


def test_a_notice_runs_a_command_so_a_reader_may_not_send_one() -> None:
    assert changes(["notify", "--test", "touch /tmp/x"])


@pytest.mark.parametrize(
    "typed",
    ["show --watch", "show --watch=5 running", "status all --watch 2", "wait 3", "events", "follow 3"],
)
def test_what_goes_on_until_ctrl_c_is_given_the_terminal(typed: str) -> None:
    assert needs_terminal(typed.split())


@pytest.mark.parametrize("typed", ["show", "show running -l", "show --tree", "eta 3", "show -- --watch", "why 3"])
def test_what_ends_by_itself_is_shown_beside_the_screen(typed: str) -> None:
    assert not needs_terminal(typed.split())
