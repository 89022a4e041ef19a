"""The table of every key of `grass top`. What a key does, the help page and the page of the manual derive from it."""

from __future__ import annotations

from typing import NamedTuple

MOVING, LOOKING, MARKING, CHANGING, OTHER = "Moving", "Looking", "Marking", "Changing", "Other"


class Key(NamedTuple):
    """Some keys that do the same."""

    #: As textual names them.
    keys: tuple[str, ...]
    #: As people write them.
    shown: str
    #: The method `do_ACTION` of the application.
    action: str
    group: str
    help: str
    #: Whether the key changes jobs or queues: not with --read-only, nor with a token that may only read.
    changes: bool = False
    #: The word in the last line of the screen; "" for keys that are not listed there.
    hint: str = ""


KEYS = (
    Key(("question_mark", "f1"), "?", "help", OTHER, "show or hide this help", hint="help"),
    Key(("q",), "q", "back", OTHER, "back; from the first screen: quit", hint="quit"),
    Key(("colon", "ctrl+p"), ":", "command", OTHER, "run a command of grass, such as :kill 3-7", hint="command"),
    Key(("slash",), "/", "filter", LOOKING, "show only some jobs; in the log: search", hint="filter"),
    Key(("j", "down"), "j ↓", "down", MOVING, "next job or line"),
    Key(("k", "up"), "k ↑", "up", MOVING, "previous job or line"),
    Key(("g", "home"), "g Home", "first", MOVING, "first job or line"),
    Key(("G", "end"), "G End", "last", MOVING, "last job or line"),
    Key(("pagedown", "ctrl+f"), "PgDn", "page_down", MOVING, "next page"),
    Key(("pageup",), "PgUp", "page_up", MOVING, "previous page"),
    Key(("tab", "l", "h", "shift+tab"), "Tab h l", "pane", MOVING, "go to the log, or back to the jobs"),
    Key(("left",), "←", "left", MOVING, "in the log: to the left"),
    Key(("right",), "→", "right", MOVING, "in the log: to the right"),
    Key(("1",), "1", "tab_1", MOVING, "jobs"),
    Key(("2",), "2", "tab_2", MOVING, "failed jobs"),
    Key(("3",), "3", "tab_3", MOVING, "queues"),
    Key(("4",), "4", "tab_4", MOVING, "sweeps: jobs that share a name"),
    Key(("5",), "5", "tab_5", MOVING, "machines"),
    Key(
        ("enter",),
        "Enter",
        "open",
        LOOKING,
        "the job alone on the screen; of a queue, sweep or machine: its jobs",
        hint="log",
    ),
    Key(("z",), "z", "zoom", LOOKING, "the pane with the keys fills the screen, or both panes again"),
    Key(("f",), "f", "follow", LOOKING, "follow the log, or stay at this line"),
    Key(("n",), "n", "next_hit", LOOKING, "next line of the log with the searched text"),
    Key(("N",), "N", "previous_hit", LOOKING, "previous line of the log with the searched text"),
    Key(("w",), "w", "why", LOOKING, "all about why the job waits and where it runs", hint="why"),
    Key(("L",), "L", "pager", LOOKING, "the whole log in $PAGER"),
    Key(("Y",), "Y", "copy", LOOKING, "copy the ids of the marked jobs, or the log that is shown, to the clipboard"),
    Key(("o",), "o", "sort", LOOKING, "sort in another order"),
    Key(("O",), "O", "reverse", LOOKING, "reverse the order"),
    Key(("c",), "c", "columns", LOOKING, "choose the columns"),
    Key(("space",), "Space", "mark", MARKING, "mark the job, or unmark it", hint="mark"),
    Key(("v",), "v", "range", MARKING, "mark all jobs from here to where you go; v again ends it"),
    Key(("asterisk",), "*", "mark_all", MARKING, "mark every job that the filter shows"),
    Key(("escape",), "Esc", "clear", MARKING, "end the range, then unmark all jobs, then remove the filter"),
    Key(("K",), "K", "kill", CHANGING, "kill the marked jobs, or this one", changes=True, hint="kill"),
    Key(("R",), "R", "rerun", CHANGING, "submit them again", changes=True, hint="rerun"),
    Key(("H",), "H", "hold", CHANGING, "hold them; release jobs that are held", changes=True, hint="hold"),
    Key(("P",), "P", "priority", CHANGING, "set their priority", changes=True, hint="priority"),
    Key(("p",), "p", "pause", CHANGING, "pause the queue of the job, or let it go on", changes=True),
    Key(("r", "ctrl+l"), "r", "redraw", OTHER, "read everything again and repaint the screen"),
    Key(("S",), "S", "start", OTHER, "start the daemon, if none runs here"),
    Key(("ctrl+z",), "Ctrl-Z", "suspend", OTHER, "back to the shell; `fg` continues"),
    Key(("Q", "ctrl+c"), "Q Ctrl-C", "quit", OTHER, "quit"),
)

#: Each key under its textual name.
BY_KEY = {name: key for key in KEYS for name in key.keys}
GROUPS = (MOVING, LOOKING, MARKING, CHANGING, OTHER)


def hints(*, may_change: bool) -> list[tuple[str, str]]:
    """Return the keys of the last line with their words."""
    return [(key.shown, key.hint) for key in KEYS if key.hint and (may_change or not key.changes)]


def help_lines(*, may_change: bool) -> list[tuple[str, str]]:
    """Return the help page: a key and what it does, or a heading and nothing."""
    lines: list[tuple[str, str]] = []
    for group in GROUPS:
        own = [(key.shown, key.help) for key in KEYS if key.group == group and (may_change or not key.changes)]
        lines += [(group, ""), *own] if own else []
    return lines
