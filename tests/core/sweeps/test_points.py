"""The indexes of arrays, files of points, and sweeps in files."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.core.sweeps.arrays import TASKS_MAX, read_array
from grassq.core.sweeps.points import FileKind, kind_of, read_points
from grassq.core.sweeps.sweep_file import read_sweep_file
from grassq.errors import BadInput


@pytest.mark.parametrize(
    ("typed", "indexes", "at_once"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("0-9:3%2", (0, 3, 6, 9), 2),
        ("1,3,5-7", (1, 3, 5, 6, 7), None),
        ("5,1,1-2", (1, 2, 5), None),
        ("7%1", (7,), 1),
    ],
)
def test_the_indexes_of_an_array(typed: str, indexes: tuple[int, ...], at_once: int | None) -> None:
    array = read_array(typed)
    assert (array.indexes, array.at_once) == (indexes, at_once)
    assert array.span == (len(indexes), indexes[0], indexes[-1])


@pytest.mark.parametrize(
    "typed", ["", "%8", "0-9%0", "0-9%", "0-9%x", "5-1", "a-b", "1,,2", "0-9:0", "-1", "1-", "9" * 20, "0-9%8%8"]
)
def test_what_is_no_array_is_refused_in_one_line(typed: str) -> None:
    with pytest.raises(BadInput, match=r"^--array"):
        read_array(typed)


def test_an_array_has_a_bound() -> None:
    assert len(read_array(f"1-{TASKS_MAX}").indexes) == TASKS_MAX
    for typed in (f"0-{TASKS_MAX}", "0-999999999", "0-60000,0-60000"):
        with pytest.raises(BadInput, match="more than 100,000 jobs"):
            read_array(typed)


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=20), min_size=2, max_size=2)
    )
)
def test_every_value_of_a_file_comes_back(rows: list[list[str]]) -> None:
    rows = [row for row in rows if any(row)] or [["x", "y"]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["a", "b"], *rows])
    assert [*map(list, read_points(out.getvalue().encode(), "csv", "f").rows)] == rows
    lines = "\n".join(json.dumps({"a": a, "b": b}) for a, b in rows)
    assert read_points(lines.encode(), "jsonl", "f").columns() == {"a": [r[0] for r in rows], "b": [r[1] for r in rows]}


def test_numbers_stay_as_they_are_written_and_blank_lines_are_no_rows() -> None:
    points = read_points(b'{"a": 1e-5, "b": true}\n\n{"b": "x", "a": 10.0}\n', "jsonl", "f")
    assert (points.rows, points.lines) == ([("1e-5", "true"), ("10.0", "x")], [1, 3])
    assert read_points(b"one two\r\n\n#x\n", "txt", "f").rows == [("one two",), ("#x",)]
    assert read_points(b'\xef\xbb\xbfa,b\r\n"1\n2",3\r\n4,5\r\n', "csv", "f").lines == [2, 4]


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("csv", b"a,b\n1,2\n3\n", "f, line 3: it has 1 values, and the header has 2 columns"),
        ("csv", b'a,b\n"x\ny",2\n3,4,5\n', "f, line 4: it has 3 values, and the header has 2 columns"),
        ("csv", b"", "f: it is empty; the first line of a CSV has the names of its columns"),
        ("csv", b"a,b\n", "f: it has no row, so there is nothing to run"),
        ("csv", b"a,a\n1,2\n", "f, line 1: two columns are called 'a'"),
        ("csv", b"a,\n1,2\n", "f, line 1: '' is not a name of a column"),
        ("csv", b'a\n"x\n', "f, line 2: it is not CSV"),
        ("csv", b"a\n\xff\n", "f, line 2: it is not text in UTF-8"),
        ("csv", b"a\nx\0\n", "f, line 2: it has a NUL"),
        ("jsonl", b'{"a": 1}\n{"a": 2', "f, line 2: it is not JSON"),
        ("jsonl", b'{"a": 1}\n{"b": 2}', "f, line 2: it has no 'a', which the first line has"),
        ("jsonl", b'{"a": 1}\n{"a": 2, "b": 2}', "f, line 2: it has 'b', which the first line does not have"),
        ("jsonl", b'{"a": [1]}', "f, line 1: the value of 'a' is neither"),
        ("jsonl", b'{"a": null}', "f, line 1: the value of 'a' is neither"),
        ("jsonl", b'{"a": "\\u0000"}', "f, line 1: the value of 'a' has a NUL"),
        ("jsonl", b'{"a": 1, "a": 2}', "f, line 1: a name is in it twice"),
        ("jsonl", b"[1]", "f, line 1: it is not an object"),
        ("jsonl", b"[" * 100_000, "f, line 1: it is not JSON"),
        ("txt", b"\n\n", "f: it has no row"),
        ("txt", b"x" * 2000, "f, line 1: the value of 'line' has more than 1,000 characters"),
        ("txt", b"x\n" * 100_001, "f, line 100001: more than 100,000 rows"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(kind: FileKind, content: bytes, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_points(content, kind, "f")
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


def test_what_a_file_is_comes_from_its_name() -> None:
    assert [kind_of(each) for each in ("a.csv", "a.JSONL", "b.txt", "-", "csv:-", "jsonl:x y")] == [
        ("csv", "a.csv"),
        ("jsonl", "a.JSONL"),
        ("txt", "b.txt"),
        ("txt", "-"),
        ("csv", "-"),
        ("jsonl", "x y"),
    ]
    with pytest.raises(BadInput, match="not a file of points"):
        kind_of("points")


WHOLE = """
name = "fit"
command = ["python", "fit.py", "{lr}"]
exclude = "lr=0.1 bs=32"
at_once = 4
gpu = 0.5
time-limit = "2h"
hold = true
label = ["a100", "big"]
env = { A = "1", B = 2.50, BS = "{bs}" }

[params]
lr = "log:1e-3..1e-1:3"
bs = [32, 64]
"""


def test_a_sweep_in_a_file_is_read_whole() -> None:
    read = read_sweep_file(WHOLE.encode(), "s.toml")
    assert (read.name, read.command, read.at_once, read.max_fails) == ("fit", ("python", "fit.py", "{lr}"), 4, None)
    assert read.parameters == {"lr": ["0.001", "0.01", "0.1"], "bs": ["32", "64"]}
    assert read.exclude == ("lr=0.1 bs=32",)
    typed = "--gpu=0.5 --time-limit 2h --hold --label a100 --label big --env A=1 --env B=2.50 --env BS={bs}"
    assert " ".join(read.words) == typed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpu =", "gpus =", "s.toml, line 6: gpus: there is no such key; did you mean gpu?"),
        ("at_once", "at_ones", "s.toml, line 5: at_ones: there is no such key; did you mean at-once?"),
        ("at_once = 4", "at_once = 0", "s.toml, line 5: at-once: it is a whole number from 1 to 100,000"),
        ('"2h"', '"-1"', "s.toml, line 7: time-limit: --time-limit needs"),
        ("hold = true", "hold = 1", "s.toml, line 8: hold: it is true or false"),
        ("1e-3..1e-1:3", "1e-3..", "s.toml, line 13: lr: parameter 'lr': the range 'log:1e-3..' cannot be read"),
        ("[32, 64]", "[[1]]", "s.toml, line 14: bs: a value is a text, a number, true or false"),
        ("[32, 64]", "[]", "s.toml, line 14: bs: it has no values"),
        ("[32, 64]", f"[0x{'f' * 5000}]", "s.toml, line 14: bs: a number has thousands of digits"),
        ("[32, 64]", f"[{'9' * 5000}]", "s.toml: a number has thousands of digits"),
        ('"2h"', f"0x{'f' * 5000}", "s.toml, line 7: time-limit: a number has thousands of digits"),
        ("[32, 64]", "[2026-99-99]", "s.toml, line 14: it is not TOML"),
        ("[32, 64]", f"{'[' * 5000}", "s.toml: it is not TOML"),
        ("name = ", "# ", "s.toml: name is missing"),
        ('"fit"', '"fit', "s.toml, line 2: it is not TOML"),
        ("[params]", "[others]", "s.toml, line 12: others: there is no such key"),
        ("[params]", "[param]", "s.toml, line 12: param: there is no such key; did you mean params?"),
        (
            "lr = ",
            "lrr = ",
            "s.toml, line 13: lrr: there is no {lrr} in command, name, env or output; did you mean lr",
        ),
        ("bs = ", "batch = ", "s.toml, line 14: batch: there is no {batch} in command, name, env or output, so each "),
        ("{bs}", "{{bs}}", "s.toml, line 14: bs: there is no {bs} in command"),
        ("bs = ", "cpu = 1\nbs = ", "s.toml, line 14: cpu: there is no {cpu} in command, name, env or output; the "),
        ("{lr}", "{lr} {x}", "s.toml, line 3: command: {x} has"),
        ('"fit"', '"fit-{x}"', "s.toml, line 2: name: {x} has no values: add x below [params]"),
        ("lr=0.1 bs=32", "lr=0.1 bss=32", "s.toml, line 4: exclude: 'lr=0.1 bss=32': there is no parameter 'bss'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(old: str, new: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_sweep_file(WHOLE.replace(old, new, 1).encode(), "s.toml")
    assert str(refused.value).startswith(said)


def test_a_parameter_may_be_used_in_any_place_that_is_filled_in() -> None:
    base = '{} = {}\nname = "n"\n[params]\nlr = [1, 2]\n'
    for key, value in (("command", '"fit {lr:>8}"'), ("command", '["fit", "{lr!r}"]'), ("command", '"{{{lr}}}"')):
        assert read_sweep_file(base.format(key, value).encode(), "s").parameters == {"lr": ["1", "2"]}
    base = 'command = "fit"\nname = "n"\n{} = {}\n[params]\nlr = [1, 2]\n'
    for key, value in (("env", '{ LR = "{lr}" }'), ("env", '["LR={lr}"]'), ("output", '"out-{lr}"')):
        assert read_sweep_file(base.format(key, value).encode(), "s").parameters == {"lr": ["1", "2"]}
    # A file of points may have other columns: what they are called is known when it is read.
    read_sweep_file(b'command = "fit {lr} {x}"\nname = "n-{x}"\npoints = "p.csv"\n[params]\nlr = [1, 2]\n', "s")
