"""The book of machines: kept in the home for the owner only, whole or refused in a sentence."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from grassq.errors import BadInput, Refused
from grassq.machines.book import FILE_MAX, FILE_NAME, MACHINES_MAX, Book, MachineEntry
from grassq.machines.ssh.target import SshTarget

A = MachineEntry("a", SshTarget("host-a", user="ann", port=2222, key="/keys/id"), ("gpu", "eu"), "{gpu: 2}")


def test_what_is_put_is_there_for_the_next_daemon(tmp_path: Path) -> None:
    assert Book(str(tmp_path)).put(A) == "added"
    (kept,) = Book(str(tmp_path)).all()
    assert kept == replace(A, labels=("eu", "gpu"))


def test_a_home_without_the_file_has_no_machines(tmp_path: Path) -> None:
    assert Book(str(tmp_path)).all() == ()


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    Book(str(tmp_path)).put(A)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_the_same_definition_is_unchanged_whatever_its_agent_and_the_new_agent_is_kept(tmp_path: Path) -> None:
    book = Book(str(tmp_path))
    book.put(replace(A, agent="/run/old"))
    assert book.put(replace(A, agent="/run/new", labels=("eu", "gpu"))) == "unchanged"
    assert Book(str(tmp_path)).all()[0].agent == "/run/new"
    assert book.put(replace(A, labels=())) == "changed"


def test_a_removed_machine_is_gone_once(tmp_path: Path) -> None:
    book = Book(str(tmp_path))
    book.put(A)
    assert book.remove("a")
    assert not book.remove("a")
    assert Book(str(tmp_path)).all() == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[{}]",
        b'[{"name": "a", "target": {"host": 7}}]',
        b'[{"name": "../a", "target": {"host": "h"}}]',
        b'[{"name": "a", "target": {"host": "h"}, "dir": "/x; rm -rf ~"}]',
        b'[{"name": "a", "target": {"host": "h"}, "surprise": 1}]',
        b'[{"name": "a", "target": {"host": "h"}}, {"name": "a", "target": {"host": "i"}}]',
        json.dumps([{"name": f"m{n}", "target": {"host": "h"}} for n in range(MACHINES_MAX + 1)]).encode(),
        b" " * FILE_MAX + b"[]",
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_refused_in_one_line_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    with pytest.raises(Refused, match=r"machines\.json cannot be read: .*; repair it, or move it away") as refused:
        Book(str(tmp_path))
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == content


def test_a_book_that_is_full_takes_changes_and_no_other_machine(tmp_path: Path) -> None:
    entries = [{"name": f"m{n}", "target": {"host": "h"}} for n in range(MACHINES_MAX)]
    (tmp_path / FILE_NAME).write_text(json.dumps(entries))
    book = Book(str(tmp_path))
    with pytest.raises(Refused, match="1,000 machines already"):
        book.put(A)
    assert book.put(MachineEntry("m7", SshTarget("other"))) == "changed"


def test_machines_that_threads_add_at_once_are_all_kept(tmp_path: Path) -> None:
    book = Book(str(tmp_path))
    threads = [
        threading.Thread(target=book.put, args=(MachineEntry(f"m{number}", SshTarget("h")),)) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.name for each in Book(str(tmp_path)).all()} == {f"m{number}" for number in range(20)}


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    book = Book(str(tmp_path / "absent"))
    with pytest.raises(Refused, match="cannot be written"):
        book.put(A)
    assert book.all() == ()


@pytest.mark.parametrize(
    "wrong",
    [
        replace(A, name="-oProxyCommand=x"),
        replace(A, name="a/b"),
        replace(A, name=""),
        replace(A, labels=("bad label",)),
        replace(A, labels=tuple(f"l{n}" for n in range(65))),
        replace(A, dir="../up"),
        replace(A, dir="a/../../b"),
        replace(A, dir="-x"),
        replace(A, dir="x y"),
        replace(A, dir="~/x"),
        replace(A, dir=""),
        replace(A, agent="relative"),
        replace(A, target=SshTarget("h", key="id\n")),
        replace(A, capacity="x" * 5000),
    ],
)
def test_words_that_cannot_be_used_are_refused_and_nothing_is_written(tmp_path: Path, wrong: MachineEntry) -> None:
    with pytest.raises(BadInput):
        Book(str(tmp_path)).put(wrong)
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize("folder", [".grass-ssh", "/scratch/ann/grass", "work/.grass", "a/b.c+d"])
def test_a_directory_may_be_below_the_home_there_or_absolute(tmp_path: Path, folder: str) -> None:
    assert Book(str(tmp_path)).put(replace(A, dir=folder)) == "added"
