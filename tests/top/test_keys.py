"""The keys of `grass top`: one table for what they do, for the help and for the page."""

from __future__ import annotations

from pathlib import Path

from grassq.cli.top.app import TopApp
from grassq.cli.top.keys import BY_KEY, KEYS, help_lines, hints

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "top.md"


def test_no_two_actions_share_a_key() -> None:
    assert len(BY_KEY) == sum(len(key.keys) for key in KEYS)
    assert len({key.action for key in KEYS}) == len(KEYS)


def test_every_key_does_something() -> None:
    for key in KEYS:
        assert callable(getattr(TopApp, f"do_{key.action}")), key


def test_keys_that_tmux_screen_and_the_terminal_use_stay_theirs() -> None:
    assert not {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q"} & BY_KEY.keys()


def test_no_key_with_ctrl_changes_anything() -> None:
    assert not [key for key in KEYS if key.changes and any(name.startswith("ctrl") for name in key.keys)]


def test_the_help_lists_every_key_and_a_reader_sees_only_what_works() -> None:
    listed = [shown for shown, words in help_lines(may_change=True) if words]
    assert sorted(listed) == sorted(key.shown for key in KEYS)
    readers = {shown for shown, words in help_lines(may_change=False) if words}
    assert readers == {key.shown for key in KEYS if not key.changes}
    assert not {"K", "R", "H", "P"} & {shown for shown, _ in hints(may_change=False)}


def test_the_page_has_the_same_table() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    rows = [row for row in rows if not row[0].startswith(" `grass ")]
    told = {shown.strip().replace("`", ""): words.strip() for shown, words in rows}
    assert told == {key.shown: key.help for key in KEYS}
