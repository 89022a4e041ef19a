"""The files of execute_batch: results, notes about jobs that run, slots that are held, and what is sent."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from grassq.compat.execute_batch.copies import TreeSender, check_forward, fetch_patterns
from grassq.compat.execute_batch.held_slots import held_slots, put_held, remove_held
from grassq.compat.execute_batch.machines import BatchMachine
from grassq.compat.execute_batch.note import BatchNote, NotedJob, NotedSubmission
from grassq.compat.execute_batch.results import RECORD, Record, Results
from grassq.compat.execute_batch.slots import HeldSlot, Needs
from grassq.errors import BadInput, Refused
from grassq.files.blobs import BlobStore
from grassq.files.manifest import Manifest, parse


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """The results in a fresh directory."""
    found = Results(str(tmp_path))
    found.prepare()
    return found


def arrive(results: Results, name: str, **files: str) -> None:
    """Let files of a job arrive."""
    folder = results.arriving(name)
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text)


def test_t50_a_job_is_done_only_when_its_results_are_complete(results: Results) -> None:
    arrive(results, "b.1", out="x")
    assert not results.has("b.1")
    results.put("b.1", Record(3, 17, "exit 3"))
    assert results.has("b.1") and results.has_failed("b.1")
    assert (results.folder / "b.1/out").read_text() == "x"
    assert json.loads((results.folder / "b.1" / RECORD).read_text()) == {"exit_code": 3, "job": 17, "command": "exit 3"}


def test_a_job_that_brings_nothing_back_is_done_too(results: Results) -> None:
    results.put("b.1", Record(0, 1, "true"))
    assert results.has("b.1") and not results.has_failed("b.1")


def test_f99_results_are_never_replaced(results: Results) -> None:
    (results.folder / "b.1").mkdir()
    (results.folder / "b.1/mine").write_text("precious")
    arrive(results, "b.1", mine="other")
    with pytest.raises(Refused, match="is there already"):
        results.put("b.1", Record(0, 1, "true"))
    assert (results.folder / "b.1/mine").read_text() == "precious"
    assert not results.has_failed("b.1")


def test_a_record_from_the_machine_is_not_followed(results: Results, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    arrive(results, "b.1")
    (results.arriving("b.1") / RECORD).symlink_to(target)
    results.put("b.1", Record(0, 1, "true"))
    assert target.read_text() == "kept"
    assert not results.has_failed("b.1")


def test_partial_results_are_kept_and_are_not_done(results: Results) -> None:
    assert results.put_partial("b.1") is None
    for number in (1, 2):
        arrive(results, "b.1", out=str(number))
        assert results.put_partial("b.1") is not None
    assert not results.has("b.1")
    assert (results.folder / "b.1.partial/out").read_text() == "1"
    assert (results.folder / "b.1.partial.2/out").read_text() == "2"


def test_results_of_a_failed_job_are_moved_away_before_its_line_runs_again(results: Results) -> None:
    results.begin("b.1")
    results.write("b.1", 0, b"old")
    arrive(results, "b.1", out="x")
    results.put("b.1", Record(1, 1, "false"))
    assert results.set_failed_aside("b.1").name == "b.1.failed"
    assert not results.has("b.1")
    assert (results.folder / "b.1.failed.out").read_bytes() == b"old"


def test_t51_output_of_an_earlier_run_is_emptied(results: Results) -> None:
    out, err = results.folder / "b.1.out", results.folder / "b.1.err"
    out.write_text("stale")
    err.write_text("stale")
    results.begin("b.1")
    assert (out.read_bytes(), err.read_bytes()) == (b"", b"")
    results.write("b.1", 0, b"one ")
    results.write("b.1", 4, b"two")
    results.put_stream("b.1", "err", iter([b"bad", b"\xff"]))
    results.close("b.1")
    assert (out.read_bytes(), err.read_bytes()) == (b"one two", b"bad\xff")


def test_output_that_a_job_truncated_is_truncated_here(results: Results) -> None:
    results.begin("b.1")
    results.write("b.1", 0, b"a long line")
    results.write("b.1", 0, b"new")
    assert (results.folder / "b.1.out").read_bytes() == b"new"


def test_the_folder_of_our_own_files_is_removed_when_it_is_empty(results: Results) -> None:
    arrive(results, "b.1")
    results.tidy()
    assert results.own.exists()
    results.put("b.1", Record(0, 1, "true"))
    results.tidy()
    assert not results.own.exists()


def submission(*jobs: NotedJob) -> NotedSubmission:
    """Jobs that were submitted."""
    machines = [BatchMachine("m.yaml", "m-1", (0, 1)), BatchMachine("n.yaml", "m-2", (None,))]
    return NotedSubmission(
        "batch-1", "k" * 32, "/home", 0o027, machines, True, [{"command": ["x"]}], dict(enumerate(jobs, 1))
    )


def test_a_note_says_again_what_was_written(tmp_path: Path) -> None:
    note = BatchNote(tmp_path, "b")
    assert note.read() is None
    written = submission(NotedJob("b.1", b"echo \xff", 7), NotedJob("b.2", b"true", None, "5e47"))
    note.write(written)
    assert note.read() == written
    note.remove()
    assert note.read() is None
    note.close()
    assert list(tmp_path.iterdir()) == []


def test_two_calls_of_one_batch_do_not_go_on_with_the_same_jobs(tmp_path: Path) -> None:
    note = BatchNote(tmp_path, "b")
    with pytest.raises(Refused, match="another execute_batch runs b in this directory"):
        BatchNote(tmp_path, "b")
    BatchNote(tmp_path, "c").close()
    note.close()
    BatchNote(tmp_path, "b").close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', '{"format": 1, "jobs": {"x": 1}}'])
def test_a_note_that_cannot_be_read_starts_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "b.json").write_text(content)
    note = BatchNote(tmp_path, "b")
    with pytest.raises(Refused, match="cannot be read"):
        note.read()
    note.close()


def queue_of(
    name: str, worker: str, *, running: int = 0, queued: int = 0, jobs: Sequence[int | None] = ()
) -> dict[str, Any]:
    """A queue on a worker, as `show` has it."""
    return {
        "name": name,
        "worker": worker,
        "running": running,
        "queued": queued,
        "slots": [{"job": job} for job in jobs],
    }


def test_slots_of_batches_are_held_while_their_queues_exist(tmp_path: Path) -> None:
    home = str(tmp_path)
    queues = [queue_of("batch-1", "m-1", jobs=[None, None]), queue_of("batch-1", "m-2", jobs=[None])]
    assert held_slots(home, queues) == {}
    needs = Needs(gpu_utilisation=Fraction("0.4"), reserves_gpu=False)
    put_held(home, "batch-1", needs, [BatchMachine("m.yaml", "m-1", (0, 1)), BatchMachine("n.yaml", "m-2", (None,))])
    put_held(home, "batch-2", Needs(), [BatchMachine("m.yaml", "m-1", (2,))])
    assert held_slots(home, queues) == {
        "m-1": [HeldSlot(needs, 0), HeldSlot(needs, 1)],
        "m-2": [HeldSlot(needs, None)],
    }
    assert [path.name for path in (tmp_path / "batches").iterdir()] == ["batch-1"]
    (tmp_path / "batches/batch-1").write_text("{}")
    assert held_slots(home, queues) == {}
    remove_held(home, "batch-1")
    remove_held(home, "batch-1")


@pytest.mark.parametrize(
    ("first", "second", "queued", "held"),
    [
        ([None, 7], [None], 0, ([1], [])),
        ([None, 7], [8], 0, ([1], [5])),
        ([None, 7], [None], 1, ([1, 0], [])),
        ([None, 7], [None], 2, ([1, 0], [5])),
        ([6, 7], [8], 900, ([0, 1], [5])),
    ],
)
def test_a_batch_holds_the_slots_of_its_running_jobs_and_one_for_each_that_waits(
    tmp_path: Path, first: list[int | None], second: list[int | None], queued: int, held: tuple[list[int], list[int]]
) -> None:
    put_held(str(tmp_path), "b", Needs(), [BatchMachine("m", "m-1", (0, 1)), BatchMachine("n", "m-2", (5,))])
    queues = [
        queue_of("b", worker, running=len([job for job in jobs if job]), queued=queued, jobs=jobs)
        for worker, jobs in (("m-1", first), ("m-2", second))
    ]
    found = held_slots(str(tmp_path), queues)
    assert tuple([slot.gpu for slot in found[worker]] for worker in ("m-1", "m-2")) == held


def test_a_batch_without_gpus_holds_as_many_slots_as_it_has_jobs(tmp_path: Path) -> None:
    put_held(str(tmp_path), "b", Needs(), [BatchMachine("m", "m-1", (None,) * 4)])
    assert len(held_slots(str(tmp_path), [queue_of("b", "m-1", running=1, queued=2)])["m-1"]) == 3


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with files, results and a repository."""
    cwd = tmp_path / "cwd"
    for path in ("a.txt", "src/x.py", "src/deep/y.py", "data/z", "job_results/b.1/old", ".git/HEAD", "src/.git/HEAD"):
        (cwd / path).parent.mkdir(parents=True, exist_ok=True)
        (cwd / path).write_text(path)
    (cwd / "run.sh").write_text("true")
    (cwd / "run.sh").chmod(0o755)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/w").write_text("w")
    return cwd


def sent(tree: Path, *paths: str) -> dict[str, bytes]:
    """The files and folders that arrive, each with its kind."""
    blobs = BlobStore(os.fsencode(tree.parent / "blobs"))
    sender = TreeSender(blobs, str(tree), None, lambda text: None)
    manifest = sender.manifest(paths)
    assert sender.manifest(paths) == manifest
    return {entry.path.decode(): entry.kind for entry in _stored(blobs, manifest).entries}


def _stored(blobs: BlobStore, manifest: str) -> Manifest:
    with blobs.open(manifest) as file:
        return parse(file.read())


def test_t49_the_current_directory_is_sent_without_results_and_repositories(tree: Path) -> None:
    found = sent(tree, "./")
    assert set(found) == {"a.txt", "run.sh", "src", "src/x.py", "src/deep", "src/deep/y.py", "data", "data/z"}
    assert found["run.sh"] == b"x" and found["a.txt"] == b"f"


def test_f85_only_the_listed_paths_are_sent_under_their_names(tree: Path) -> None:
    assert set(sent(tree, "a.txt", "src/deep")) == {"a.txt", "src", "src/deep", "src/deep/y.py"}
    assert set(sent(tree, "src/", "./src/x.py")) == {"src", "src/x.py", "src/deep", "src/deep/y.py"}
    assert set(sent(tree, "../beside", "run.sh")) == {"beside", "beside/w", "run.sh"}
    assert sent(tree, "run.sh")["run.sh"] == b"x"


def test_a_path_that_is_not_there_or_leaves_is_refused(tree: Path) -> None:
    check_forward(["a.txt", "./"], str(tree))
    with pytest.raises(BadInput, match="there is no file or folder nothing"):
        check_forward(["nothing"], str(tree))
    (tree.parent / "src").write_text("a file of the same name as a folder")
    with pytest.raises(BadInput, match="two of the paths have a src"):
        sent(tree, "src", "../src")


def test_paths_that_come_back_are_patterns_inside_of_the_jobs_folder() -> None:
    assert fetch_patterns(["./"]) == (b".",)
    assert fetch_patterns(["out/", "*.pt"]) == (b"out/", b"*.pt")
    for wrong in ("/etc", "../x", "a/../../b"):
        with pytest.raises(BadInput, match="--copy-backwards: "):
            fetch_patterns([wrong])
