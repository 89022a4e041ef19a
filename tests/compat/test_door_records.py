from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grassq.compat.simple_gpu_scheduler.records import FOLDER, Note, Record, left_behind

NOTE = Note("sgs-0", 1, 2)

#: Writes a note and dies.
DIES = """
import os, sys
from grassq.compat.simple_gpu_scheduler.records import Note, Record
record = Record(sys.argv[1], Note("sgs-0", 1, 2))
record.write(Note("sgs-0", 1, 2, 3, 4, "x" * 1000))
record.write(Note("sgs-0", 1, 2, 3, 4, "\\udcff"))
os.kill(os.getpid(), 9)
"""


def killed(home: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(home)], check=False, timeout=60)


def test_the_note_of_a_call_that_lives_is_not_left_behind(tmp_path: Path) -> None:
    record = Record(str(tmp_path), NOTE)
    assert list(left_behind(str(tmp_path))) == []
    record.remove()
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_the_note_of_one_that_was_killed_says_what_it_wrote_last(tmp_path: Path) -> None:
    killed(tmp_path)
    [note] = [left.note for left in left_behind(str(tmp_path))]
    assert note == NOTE._replace(first=3, last=4, handing="\udcff")


def test_it_stays_until_all_of_it_is_told(tmp_path: Path) -> None:
    killed(tmp_path)
    assert len(list(left_behind(str(tmp_path)))) == 1
    for left in left_behind(str(tmp_path)):
        left.remove()
    assert list(left_behind(str(tmp_path))) == []


def test_of_two_that_look_at_once_one_tells(tmp_path: Path) -> None:
    killed(tmp_path)
    first = left_behind(str(tmp_path))
    next(first)
    assert list(left_behind(str(tmp_path))) == []
    first.close()  # type: ignore[attr-defined]
    assert len(list(left_behind(str(tmp_path)))) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"queue": 1}', json.dumps(NOTE._replace(first="x")._asdict())])  # type: ignore[arg-type]
def test_a_note_that_cannot_be_read_is_no_note(tmp_path: Path, content: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "sgs-1.json").write_text(content)
    assert [left.note for left in left_behind(str(tmp_path))] == [None]


def test_a_home_where_nobody_was_has_none(tmp_path: Path) -> None:
    assert list(left_behind(str(tmp_path))) == []


def test_a_note_is_for_its_owner_alone(tmp_path: Path) -> None:
    record = Record(str(tmp_path), NOTE)
    assert (tmp_path / FOLDER).stat().st_mode & 0o077 == 0
    assert os.stat(tmp_path / FOLDER / "sgs-0.json").st_mode & 0o077 == 0  # noqa: PTH116
    record.remove()
