from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grassq.compat.simple_gpu_scheduler.records import FOLDER, RunNote, RunRecord, left_behind

NOTE = RunNote("sgs-0", 1, 2)

#: Writes a note and dies.
DIES = """
import os, sys
from grassq.compat.simple_gpu_scheduler.records import RunNote, RunRecord
record = RunRecord(sys.argv[1], RunNote("sgs-0", 1, 2))
record.write(RunNote("sgs-0", 1, 2, 3, 4, "x" * 1000))
record.write(RunNote("sgs-0", 1, 2, 3, 4, "\\udcff"))
os.kill(os.getpid(), 9)
"""


def killed(home: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(home)], check=False, timeout=60)


def test_the_note_of_a_call_that_lives_is_not_left_behind(tmp_path: Path) -> None:
    record = RunRecord(str(tmp_path), NOTE)
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


def test_the_oldest_is_told_first(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for name, began in (("sgs-1", 7), ("sgs-2", 5), ("sgs-3", 6)):
        (tmp_path / FOLDER / f"{name}.json").write_text(json.dumps(RunNote(name, 1, began)._asdict()))
    assert [left.note and left.note.began for left in left_behind(str(tmp_path))] == [5, 6, 7]


def test_what_cannot_be_read_is_put_aside_and_not_found_again(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "sgs-1.json").write_text("echo a")
    [left] = left_behind(str(tmp_path))
    assert Path(left.put_aside()).read_text() == "echo a"
    assert list(left_behind(str(tmp_path))) == []


def test_a_note_that_was_never_finished_goes_in_time(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    old, new = tmp_path / FOLDER / ".sgs-1.new", tmp_path / FOLDER / ".sgs-2.new"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    assert list(left_behind(str(tmp_path))) == []
    assert (old.exists(), new.exists()) == (False, True)


def test_a_note_that_somebody_removed_is_gone_already(tmp_path: Path) -> None:
    record = RunRecord(str(tmp_path), NOTE)
    (tmp_path / FOLDER / "sgs-0.json").unlink()
    record.remove()


def test_where_a_note_does_not_fit_the_one_before_stays_readable(tmp_path: Path) -> None:
    """A disk that is full in the middle of a note."""
    code = """
import resource, signal, sys
from grassq.compat.simple_gpu_scheduler.records import RunNote, RunRecord
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
record = RunRecord(sys.argv[1], RunNote("sgs-0", 1, 2))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    record.write(RunNote("sgs-0", 1, 2, 3, 4, "x" * 10_000))
except OSError:
    print("noticed")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "noticed\n", done.stderr
    assert [left.note for left in left_behind(str(tmp_path))] == [NOTE]


def test_where_no_note_can_be_made_nothing_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / FOLDER / "sgs-0.json").mkdir(parents=True)
    with pytest.raises(OSError, match="sgs-0"):
        RunRecord(str(tmp_path), NOTE)
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["sgs-0.json"]


def test_a_home_where_nobody_was_has_none(tmp_path: Path) -> None:
    assert list(left_behind(str(tmp_path))) == []


def test_a_note_is_for_its_owner_alone(tmp_path: Path) -> None:
    record = RunRecord(str(tmp_path), NOTE)
    assert (tmp_path / FOLDER).stat().st_mode & 0o077 == 0
    assert os.stat(tmp_path / FOLDER / "sgs-0.json").st_mode & 0o077 == 0  # noqa: PTH116
    record.remove()
