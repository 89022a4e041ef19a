"""The files of a job on this computer: what may be sent together, and what is brought back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grassq.core.syntax.file_words import SentTree
from grassq.errors import BadInput, GrassError
from grassq.files.blobs import BlobStore
from grassq.files.snapshot import snapshot
from grassq.worker import job_files
from grassq.worker.job_files import FetchOrder
from grassq.worker.local_files import tree
from grassq.worker.local_files.fetch import fetch


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(os.fsencode(tmp_path / "blobs"))


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    return folder


def sent(blobs: BlobStore, folder: Path, dest: bytes = b"") -> SentTree:
    return SentTree(snapshot(os.fsencode(folder), blobs).id, dest, os.fsencode(folder))


# Sending.


def test_trees_lie_in_one_another_whatever_their_order(blobs: BlobStore, tmp_path: Path) -> None:
    code, data = put(tmp_path / "code", "a", "in/b"), put(tmp_path / "data", "d")
    trees = (sent(blobs, data, b"in/deep/data"), sent(blobs, code))
    job_files.check(blobs, trees, ())
    run = tmp_path / "run"
    run.mkdir()
    tree.make(str(run), trees, blobs, 0o022)
    made = run / "tree"
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()) == [
        "a",
        "in/b",
        "in/deep/data/d",
    ]
    assert sorted(path.name for path in run.iterdir()) == ["sent", "tree"]


@pytest.mark.parametrize("dest", [b"a", b"in", b"a/x", b"link/x"])
def test_a_tree_may_not_replace_what_another_has_or_go_through_its_links(
    blobs: BlobStore, tmp_path: Path, dest: bytes
) -> None:
    code = put(tmp_path / "code", "a", "in/b")
    (code / "link").symlink_to("in")
    trees = (sent(blobs, code), sent(blobs, put(tmp_path / "data", "d"), dest))
    with pytest.raises(BadInput, match="another folder that is sent has"):
        job_files.check(blobs, trees, ())


def test_content_that_is_missing_or_damaged_is_said_before_the_job_is_stored(blobs: BlobStore, tmp_path: Path) -> None:
    one = sent(blobs, put(tmp_path / "code", "a"))
    manifest = blobs.path(one.manifest)
    content = next(path for path in (tmp_path / "blobs").glob("??/*") if path.read_text() == "a\n")
    content.unlink()
    with pytest.raises(BadInput, match="the content of 1 of its files is not stored"):
        job_files.check(blobs, (one,), ())
    Path(os.fsdecode(manifest)).write_bytes(b"grass tree 1\n")
    with pytest.raises(BadInput, match="cannot be sent"):
        job_files.check(blobs, (one,), ())


def test_a_tree_that_cannot_be_made_leaves_no_tree(blobs: BlobStore, tmp_path: Path) -> None:
    one = sent(blobs, put(tmp_path / "code", "a", "b"))
    next(path for path in (tmp_path / "blobs").glob("??/*") if path.read_text() == "b\n").unlink()
    run = tmp_path / "run"
    run.mkdir()
    for _ in range(2):
        with pytest.raises(GrassError):
            tree.make(str(run), (one,), blobs, 0o022)
        assert not tree.is_made(str(run))


def test_what_a_job_made_or_changed_stays_and_the_rest_of_its_tree_is_removed(blobs: BlobStore, tmp_path: Path) -> None:
    code = put(tmp_path / "code", "kept", "changed", "same_size", "sub/deep/file", "made/into", "moved", "gone")
    (code / "link").symlink_to("kept")
    (code / "empty").touch()
    run = tmp_path / "run"
    run.mkdir()
    trees = (sent(blobs, code), sent(blobs, put(tmp_path / "data", "d", "e"), b"data"))
    tree.make(str(run), trees, blobs, 0o022)
    made = run / "tree"
    (made / "changed").write_text("by the job\n")
    (made / "same_size").write_text("SAME_SIZE\n")
    (made / "made" / "new").write_text("new\n")
    (made / "moved").rename(made / "elsewhere")
    (made / "gone").unlink()
    (made / "data" / "e").chmod(0o600)
    (made / "empty").write_text("no more\n")
    tree.prune(str(run), blobs)
    assert names(made) == ["changed", "data/e", "elsewhere", "empty", "made/new", "same_size"]
    assert (made / "same_size").read_text() == "SAME_SIZE\n"
    assert not (made / "sub").exists()
    tree.prune(str(run), blobs)
    assert (made / "data/e").exists(), "once is enough"


def test_a_wrong_pattern_is_said(blobs: BlobStore) -> None:
    with pytest.raises(BadInput):
        job_files.check(blobs, (), (b"/abs",))


# Fetching.


def order(root: Path, to: Path, *patterns: bytes) -> FetchOrder:
    return FetchOrder(os.fsencode(root), os.fsencode(to), patterns)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_files_keep_their_paths_modes_and_times(tmp_path: Path) -> None:
    root = put(tmp_path / "root", "out/a", "out/deep/b", "c")
    (root / "out/a").chmod(0o750)
    os.utime(root / "out/a", ns=(1, 1_000_000_001))
    assert fetch(order(root, tmp_path / "to/new", b"out"), "1-1") is None
    assert names(tmp_path / "to/new") == ["out/a", "out/deep/b"]
    status = (tmp_path / "to/new/out/a").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o750, 1_000_000_001)
    assert names(root) == ["c", "out/a", "out/deep/b"], "they are copied, not taken"
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["new"]


def test_files_replace_those_of_the_same_name_and_leave_others(tmp_path: Path) -> None:
    root, to = put(tmp_path / "root", "a", "sub/b"), put(tmp_path / "to", "other", "sub/c")
    (to / "a").write_text("old")
    assert fetch(order(root, to, b"**"), "1-1") is None
    assert names(to) == ["a", "other", "sub/b", "sub/c"] and (to / "a").read_text() == "a\n"


def test_what_a_killed_daemon_left_is_not_taken_for_files(tmp_path: Path) -> None:
    root, to = put(tmp_path / "root", "a"), put(tmp_path / "to", "old")
    put(to / ".grass-fetch-1-1", "0", "half")
    assert fetch(order(root, to, b"a"), "1-1") is None
    assert names(to) == ["a", "old"] and (to / "a").read_text() == "a\n"


def test_links_stay_inside_and_odd_files_are_said(tmp_path: Path) -> None:
    root, to = put(tmp_path / "root", "out/a"), tmp_path / "to"
    (root / "out/in").symlink_to("a")
    (root / "out/away").symlink_to("/etc/passwd")
    (root / "out/up").symlink_to("../../secret")
    os.mkfifo(root / "out/fifo")
    problem = fetch(order(root, to, b"out"), "1-1") or ""
    assert names(to) == ["out/a", "out/in"] and (to / "out/in").is_symlink()
    assert "'out/fifo': it is a socket, a fifo or a device" in problem
    assert problem.count("can lead out of the job's directory") == 2
    assert str(root) in problem


def test_links_of_two_jobs_do_not_leave_together(tmp_path: Path) -> None:
    to = tmp_path / "to"
    (tmp_path / "secret").write_text("secret")
    for job, (name, target) in enumerate([("a", "b/../secret"), ("b", "."), ("c", "b/../secret")]):
        root = put(tmp_path / f"root{job}", "out/file")
        (root / name).symlink_to(target)
        problem = fetch(order(root, to, b"**"), f"{job}-1") or ""
        assert problem.count("the link can lead out of the job's directory") == (name != "b")
    assert sorted(path.name for path in to.iterdir()) == ["b", "out"]


def test_a_link_may_go_through_folders_that_come_with_it(tmp_path: Path) -> None:
    root, to = put(tmp_path / "root", "out/file"), tmp_path / "to"
    (root / "in/deep").mkdir(parents=True)
    (root / "in/deep/link").symlink_to("../../in/../out/file")
    assert fetch(order(root, to, b"**"), "1-1") is None
    assert (to / "in/deep/link").read_text() == "out/file\n"


def test_nothing_is_brought_through_a_link_of_the_target(tmp_path: Path) -> None:
    root, to = put(tmp_path / "root", "out/a"), tmp_path / "to"
    (tmp_path / "elsewhere").mkdir()
    to.mkdir()
    (to / "out").symlink_to(tmp_path / "elsewhere")
    problem = fetch(order(root, to, b"out/a"), "1-1")
    assert problem is not None and names(tmp_path / "elsewhere") == []
    assert sorted(path.name for path in to.iterdir()) == ["out"], "nothing private is left"


def test_a_target_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    root = put(tmp_path / "root", "a")
    put(tmp_path, "file")
    problem = fetch(order(root, tmp_path / "file/to", b"a"), "1-1") or ""
    assert problem.startswith("not fetched: ") and "Not a directory" in problem


def test_a_root_that_is_gone_matches_nothing(tmp_path: Path) -> None:
    assert "no file matches 'a'" in (fetch(order(tmp_path / "gone", tmp_path / "to", b"a"), "1-1") or "")
    assert not (tmp_path / "to").exists()
