"""Tables fit a width: least useful columns go first, commands keep what differs, and no line is wider."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.cli import render
from grassq.cli.listing.bars import bar, last_line, progress_text
from grassq.cli.listing.differences import differing, shortened
from grassq.cli.listing.grid import Grid, GridColumn

TEXT = st.one_of(st.text(max_size=60), st.text("日本é \x1b\u202e\n", max_size=30), st.just("x" * 5000))


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=5), st.integers(1, 200))
def test_no_line_is_wider_than_the_screen(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = [GridColumn("A", [row[0] for row in rows])]
    columns += [GridColumn("B", [row[1] for row in rows], least=10), GridColumn("C", [row[2] for row in rows], rank=1)]
    grid = Grid(columns, width)
    for line in [grid.head(), *grid.rows(coloured=False)]:
        # Every column that may not be left out takes at least one character.
        assert render.columns(line) <= max(width, 4)
        assert "\x1b" not in line and "\n" not in line and "\u202e" not in line


def test_the_least_useful_column_is_left_out_first() -> None:
    def grid(width: int) -> Grid:
        ranks = {"ID": 0, "NAME": 2, "PID": 1, "TEXT": 3}
        return Grid([GridColumn(name, ["x" * 10], rank=rank) for name, rank in ranks.items()], width)

    assert [column.header for column in grid(46).columns] == ["ID", "NAME", "PID", "TEXT"]
    assert [column.header for column in grid(45).columns] == ["ID", "NAME", "TEXT"]
    assert [column.header for column in grid(33).columns] == ["ID", "TEXT"]
    assert [column.header for column in grid(5).columns] == ["ID"]


def test_more_rows_of_a_table_have_the_widths_of_the_first() -> None:
    first = Grid([GridColumn("A", ["aa"]), GridColumn("B", ["b"])], 80)
    more = Grid([GridColumn("A", ["a much longer cell"]), GridColumn("B", ["b"])], 80, sizes=first.sizes)
    assert first.rows(False) == ["aa  b"] and more.rows(False) == ["a…  b"]


@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        (["python train.py --lr 0.1 --bs 32", "python train.py --lr 0.2 --bs 32"], ["… --lr 0.1", "… --lr 0.2"]),
        (["a --x=1 b", "a --x=2 b"], ["… --x=1", "… --x=2"]),
        (["one a", "two a"], ["one", "two"]),
        (["run a", "run a b", "run c b b"], ["… a", "… a b", "… c b b"]),
        (["run --seed", "run --seed 1 x"], ["… --seed", "… --seed 1 x"]),
        (["same", "same"], ["same", "same"]),
    ],
)
def test_what_differs(commands: list[str], shown: list[str]) -> None:
    if len(set(commands)) > 1:
        assert differing([command.split(" ") for command in commands]) == shown


@given(st.lists(st.lists(st.text(max_size=6), min_size=1, max_size=8), min_size=1, max_size=6), st.integers(1, 60))
def test_shortened_commands_differ_where_the_commands_do(commands: list[list[str]], width: int) -> None:
    jobs: list[dict[str, Any]] = [{"id": 1, "name": "sweep", "command": words, "shell": True} for words in commands]
    shown = shortened(jobs, width)
    assert len(shown) == len(jobs)
    texts = [render.clean(" ".join(words)) for words in commands]
    for one, other, this, that in zip(texts, texts[1:], shown, shown[1:], strict=False):
        assert (this == that) or one != other


def test_a_batch_is_not_cut_to_its_shell() -> None:
    lines = [f"cd /data/project && source env.sh && python train.py --lr {lr} > log" for lr in (0.1, 0.01)]
    jobs = [{"id": index, "command": ["bash", "-c", line], "shell": False} for index, line in enumerate(lines)]
    assert shortened(jobs, 30) == ["… --lr 0.1", "… --lr 0.01"]
    assert shortened(jobs[:1], 30) == [lines[0]], "alone, it begins with what the shell runs"
    assert shortened(jobs, 200) == [f"bash -c '{line}'" for line in lines]
    path = {"id": 3, "command": ["/home/me/envs/big/bin/python", "train.py", "--lr", "1"]}
    assert shortened([path], 20) == ["python train.py --lr 1"]


def test_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [bar(fraction, 4, ascii=False) for fraction in (-1, 0, 0.5, 0.99, 1, 7)] == [
        "░░░░",
        "░░░░",
        "██░░",
        "███▉",
        "████",
        "████",
    ]
    monkeypatch.setattr(render, "is_utf8", lambda fd=1: False)
    assert bar(0.5, 4, ascii=True) == "##.."
    assert progress_text({"progress": {"fraction": 0.5, "left_s": 61}}) == "####....  50% 1m1s left"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (None, ""),
        ("x", ""),
        ({}, ""),
        ({"fraction": None, "done": 12.0}, "12 done"),
        ({"fraction": 1, "left_s": 0}, "████████ 100%"),
        ({"fraction": 0.34, "left_s": 26 * 60}, "██▋░░░░░  34% 26m left"),
    ],
)
def test_progress_in_words(told: Any, text: str) -> None:
    assert progress_text({"progress": told}) == text


def test_the_bar_of_a_last_line_is_left_out() -> None:
    line = "train:  35%|███▌      | 14/40 [11:47<21:40,  1.99it/s, loss=0.2]"
    assert last_line({"last_line": line}) == "train:  35% 14/40 [11:47<21:40,  1.99it/s, loss=0.2]"
    assert [last_line({"last_line": text}) for text in (None, "", "a | b", "5%|")] == ["", "", "a | b", "5%|"]
