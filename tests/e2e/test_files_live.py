"""Jobs that are sent files and bring files back, with a real daemon on this machine, also one that is killed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from tests.e2e.world import Grass, eventually

import grassq
from grassq.errors import BadInput
from grassq.home import Sender

#: So many files that bringing them takes longer than it takes to kill a daemon.
MANY = 1500


@pytest.fixture
def project(grass: Grass) -> Path:
    folder = grass.cwd / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "in.txt").write_text("original\n")
    (folder / "sub" / "tool").write_text("#!/bin/sh\necho tool in $PWD\n")
    (folder / "sub" / "tool").chmod(0o755)
    return folder


def blobs_in(home: Path) -> list[Path]:
    return [path for path in (home / "blobs").glob("??/*") if path.is_file()]


def tree_of(grass: Grass, job: int) -> Path:
    return grass.home / "jobs" / str(job) / "1" / "tree"


def test_a_job_changes_its_copy_and_the_next_job_sees_the_original(grass: Grass, project: Path) -> None:
    change = ("sh", "-c", "cat in.txt; echo changed >in.txt; cat in.txt")
    for _ in range(2):
        assert grass.run("--send", "project", "--", *change) == "original\nchanged\n"
    assert (project / "in.txt").read_text() == "original\n"


def test_a_job_runs_in_what_it_was_sent(grass: Grass, project: Path) -> None:
    assert grass.run("--send", "project", "--cwd", "sub", "--", "./tool") == f"tool in {tree_of(grass, 1)}/sub\n"
    (grass.cwd / "data").mkdir()
    (grass.cwd / "data" / "d").write_text("data\n")
    sent = ("--send", "project", "--send", "data:sub/more/data")
    assert grass.run(*sent, "--", "cat", "in.txt", "sub/more/data/d") == "original\ndata\n"
    assert grass.run("--send=data:in", "--", "ls") == "in\n"
    shown = grass.job(2)["files"]["send"]
    assert [(tree["folder"], tree["dest"]) for tree in shown] == [
        (str(project), ""),
        (str(grass.cwd / "data"), "sub/more/data"),
    ]


def test_a_job_that_succeeded_leaves_what_it_made_and_a_job_that_failed_leaves_everything(
    grass: Grass, project: Path
) -> None:
    grass.run("--send", "project", "--", "sh", "-c", "echo made >made")
    eventually(lambda: sorted(path.name for path in tree_of(grass, 1).iterdir()) == ["made"], "the rest is removed")
    id_ = grass.enqueue("--send", "project", "--", "sh", "-c", "echo made >made; exit 1")
    grass.until(id_, "failed")
    kept = grass.enqueue("--send", "project", "--keep-children", "--", "true")
    grass.until(kept, "succeeded")
    grass.run("--send", "project", "--", "true")
    eventually(lambda: not list(tree_of(grass, 4).iterdir()), "the next job's files are removed")
    assert sorted(path.name for path in tree_of(grass, id_).iterdir()) == ["in.txt", "made", "sub"]
    assert (tree_of(grass, kept) / "in.txt").exists()


def test_what_grassignore_names_is_not_sent(grass: Grass, project: Path) -> None:
    (project / ".grassignore").write_text("*.big\nsub/\n")
    (project / "x.big").write_text("x")
    assert grass.run("--send", "project", "--", "ls") == "in.txt\n"


def test_files_come_back_to_the_folder_that_was_sent(grass: Grass, project: Path) -> None:
    (project / "out").mkdir()
    (project / "out" / "old").write_text("old\n")
    make = "mkdir -p out/deep; echo 1 >out/a.txt; echo 2 >out/deep/b.txt; echo 3 >out/no.log; ln -s a.txt out/c.txt"
    id_ = grass.enqueue("--send", "project", "--fetch", "out/**/*.txt", "--fetch=out/a.txt", "--", "sh", "-c", make)
    assert grass.until(id_, "succeeded")["error"] is None
    found = sorted(str(path.relative_to(project)) for path in (project / "out").rglob("*") if not path.is_dir())
    assert found == ["out/a.txt", "out/c.txt", "out/deep/b.txt", "out/old"]
    assert (project / "out/c.txt").read_text() == "1\n"


def test_files_come_back_from_a_job_that_failed(grass: Grass, project: Path) -> None:
    id_ = grass.enqueue("--send", "project", "--fetch", "trace", "--", "sh", "-c", "echo why >trace; exit 3")
    assert grass.until(id_, "failed")["exit_code"] == 3
    assert (project / "trace").read_text() == "why\n"


def test_a_new_folder_of_results_appears_and_an_old_one_is_added_to(grass: Grass, project: Path) -> None:
    fetch = ("--send", "project", "--fetch", "r*", "--fetch-to", "results/of/it")
    grass.run(*fetch, "--", "sh", "-c", "echo 1 >r1")
    grass.run(*fetch, "--", "sh", "-c", "echo 2 >r2")
    results = grass.cwd / "results/of/it"
    assert sorted(path.name for path in results.iterdir()) == ["r1", "r2"]


def test_files_have_the_modes_that_the_users_umask_gives(grass: Grass, project: Path) -> None:
    make = "stat -c '%a %n' in.txt sub sub/tool; echo 1 >made; mkdir new; echo 2 >new/own; chmod 600 new/own"
    asked = ("--send", "project", "--fetch", ".", "--fetch-to", "results/deep", "--", "sh", "-c", make)
    assert grass.bash(f"umask 027; grass run {shlex.join(asked)}").out == "640 in.txt\n750 sub\n750 sub/tool\n"
    modes = {str(path.relative_to(grass.cwd)): path.stat().st_mode & 0o777 for path in grass.cwd.rglob("results*/**/*")}
    assert modes | {"results": (grass.cwd / "results").stat().st_mode & 0o777} == {
        "results": 0o750,
        "results/deep": 0o750,
        "results/deep/in.txt": 0o640,
        "results/deep/sub": 0o750,
        "results/deep/sub/tool": 0o750,
        "results/deep/made": 0o640,
        "results/deep/new": 0o750,
        "results/deep/new/own": 0o600,
    }


def test_without_send_files_come_from_the_directory_of_the_job(grass: Grass) -> None:
    (grass.cwd / "other").mkdir()
    write = ("sh", "-c", "echo made >made.txt")
    grass.run("--cwd", "other", "--fetch", "made.txt", "--", *write)
    assert (grass.cwd / "made.txt").read_text() == "made\n"
    grass.run("--fetch", "made.txt", "--", *write)
    assert (grass.cwd / "made.txt").read_text() == "made\n", "from a directory to the same directory"


def test_what_cannot_come_back_is_the_error_of_the_job_and_stays_there(grass: Grass, project: Path) -> None:
    (project / "out").write_text("a file")
    make = "mkdir -p new out2; rm -f out; mkdir out; echo 1 >out/x; echo 2 >out2/y"
    id_ = grass.enqueue("--send", "project", "--fetch", "out", "--fetch", "nothing", "--", "sh", "-c", make)
    error = grass.until(id_, "succeeded")["error"]
    assert "no file matches 'nothing'" in error and "'out'" in error and str(tree_of(grass, id_)) in error
    assert (project / "out").read_text() == "a file"
    assert (tree_of(grass, id_) / "out/x").read_text() == "1\n"
    done = grass("run", "--send", "project", "--fetch", "nothing", "--", "true")
    assert done.code == 0 and "not fetched: no file matches 'nothing'" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--send", "nope"), "there is no folder"),
        (("--send", "project/in.txt"), "is none"),
        (("--send", "project:/abs"), "DEST of --send names something inside of the job's directory"),
        (("--send", "project:../up"), "DEST of --send names something inside of the job's directory"),
        (("--send", "project", "--send", "project"), "two folders of --send go to the same place"),
        (("--send", "project", "--send", "project:sub"), "has 'sub' already"),
        (("--send", "project", "--send", "project:in.txt/x"), "has 'in.txt' already"),
        (("--send", "project", "--cwd", "/tmp"), "--cwd with --send"),
        (("--send", "project", "--cwd", "nope"), "there is no directory"),
        (("--fetch", "/abs"), "--fetch names something inside of the job's directory"),
        (("--fetch", "a/../../b"), "--fetch names something inside of the job's directory"),
        (("--fetch-to", "x"), "--fetch-to says where the files of --fetch go"),
        (("--env-from", "nowhere"), "--env-from needs 'there' or 'here'"),
        (("--setup-files", "x"), "give --setup too"),
        (("--setup", " "), "--setup needs a command"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_stored(
    grass: Grass, project: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in grass.refuses(2, "enqueue", *words, "--", "true")
    grass.nothing_was_stored()


def test_options_of_another_program_are_not_ours(grass: Grass, project: Path) -> None:
    assert grass.run("--", "echo", "--send", "nope") == "--send nope\n"
    assert grass.run("echo", "--send", "nope", "--fetch", "/x") == "--send nope --fetch /x\n"
    assert not (grass.home / "blobs").exists()


def test_four_hundred_jobs_share_the_content_of_one_folder(grass: Grass, project: Path) -> None:
    lines = "".join(f"cat in.txt # {number}\n" for number in range(400))
    done = grass.bash(f"printf '%s' '{lines}' | grass enqueue --cpu=0.1 --send project --stdin -q")
    assert done.out == "1-400\n", done
    contents = {path.name for path in blobs_in(grass.home)}
    assert len(contents) == 3, "two files and the manifest"
    grass.ok("wait", "1-400")
    assert grass.states() == ["succeeded"] * 400
    assert {path.name for path in blobs_in(grass.home)} == contents
    assert grass.log(400) == "original\n"


def test_a_sweep_and_a_rerun_have_the_same_files(grass: Grass, project: Path) -> None:
    grass.ok("sweep", "cat in.txt; echo {n} >in.txt", "-p", "n", "1", "2", "--send", "project")
    grass.ok("wait", "1-2")
    (project / "in.txt").write_text("later\n")
    grass.ok("rerun", "1")
    grass.until(3, "succeeded")
    assert [grass.log(id_) for id_ in (1, 2, 3)] == ["original\n"] * 3


def test_the_sdk_sends_and_fetches(client: grassq.Client, grass: Grass, project: Path) -> None:
    (grass.cwd / "data").mkdir()
    (grass.cwd / "data" / "d").write_text("data\n")
    send = {"project": "", "data": "in/data"}
    read = ["sh", "-c", "cat in.txt in/data/d; echo r >r"]
    with client:
        job = client.submit(read, send=send, fetch="r", fetch_to="back", env_from="here")
        job.wait(timeout=30)
        assert job.log() == "original\ndata\n"
        assert (grass.cwd / "back" / "r").read_text() == "r\n"
        jobs = client.submit_many(["cat in.txt", ["./tool"]], send=project, cwd="sub", setup="true")
        client.wait(jobs, timeout=30)
        assert jobs[1].log().endswith(f"tool in {tree_of(grass, 3)}/sub\n")
        with pytest.raises(BadInput, match="is not a folder"):
            client.submit(["true"], send="nope")


def test_content_that_is_not_stored_is_said(grass: Grass, project: Path) -> None:
    grass.run("--send", "project", "--", "true")
    for path in blobs_in(grass.home):
        if path.read_bytes() == b"original\n":
            path.unlink()
    grass.ok("rerun", "1")
    error = grass.until(2, "failed")["error"]
    assert "is missing: submit the job again" in error
    assert grass.run("--send", "project", "--", "cat", "in.txt") == "original\n", "a new snapshot has it again"
    sent = {"manifest": "0" * 64, "folder": str(project)}
    with grass.client() as api, pytest.raises(BadInput, match="cannot be sent"):
        api.submit([{"command": ["true"], "send": [sent]}], Sender.to(None), wait_for_queue=False)


# The environment.


def test_the_environment_of_a_login_shell_and_of_a_python(grass: Grass, project: Path, tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("export FROM_LOGIN=yes\n")
    env = {"HOME": str(tmp_path), "SHELL": "/bin/sh", "FROM_HERE": "yes"}
    show = ("sh", "-c", 'echo "$FROM_LOGIN:$FROM_HERE:$OWN:$GRASS_JOB_ID"')
    grass.env |= env
    assert grass.run("--env-from=there", "-e", "OWN=1", "--", *show) == "yes::1:1\n"
    assert grass.run("--env-from=here", "-e", "OWN=1", "--", *show) == ":yes:1:2\n"
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/bin/echo")
    assert grass.run("--python", venv, "--", "python", "hello") == "hello\n"


def test_a_setup_runs_once_for_all_jobs_and_its_failure_is_that_of_the_start(grass: Grass, project: Path) -> None:
    (project / "uv.lock").write_text("1\n")
    setup = f"cat uv.lock >>{grass.cwd}/runs; mkdir -p .venv/bin; ln -s /bin/echo .venv/bin/tool"
    ids = [grass.enqueue("--send", "project", "--setup", setup, "--", "tool", str(number)) for number in range(4)]
    grass.ended(*ids)
    assert [grass.log(id_)[-2:] for id_ in ids] == ["0\n", "1\n", "2\n", "3\n"]
    assert (grass.cwd / "runs").read_text() == "1\n"
    (project / "uv.lock").write_text("2\n")
    grass.run("--send", "project", "--setup", setup, "--", "tool")
    assert (grass.cwd / "runs").read_text() == "1\n2\n"
    id_ = grass.enqueue("--send", "project", "--tries=3", "--setup", "echo no network; exit 7", "--", "true")
    job = grass.until(id_, "failed")
    assert job["outcome"] == "spawn_failed" and job["error"].startswith("the setup failed with exit code 7")
    assert "no network\n" in grass.log(id_)


def test_a_job_that_is_killed_in_its_setup_ends_with_it(grass: Grass, project: Path) -> None:
    id_ = grass.enqueue("--send", "project", "--setup", f"touch {grass.cwd}/begun; sleep 100", "--", "true")
    eventually((grass.cwd / "begun").exists, "the setup begins")
    grass.ok("kill", str(id_))
    grass.until(id_, "cancelled")


# A daemon that is killed.


def test_a_daemon_killed_after_the_submission_starts_the_job_with_what_was_sent(grass: Grass, project: Path) -> None:
    id_ = grass.enqueue("--hold", "--send", "project", "--", "cat", "in.txt")
    grass.crash()
    (project / "in.txt").write_text("later\n")
    grass.ok("release", str(id_))
    grass.until(id_, "succeeded")
    assert grass.log(id_) == "original\n"


def test_a_daemon_killed_while_it_makes_a_tree_makes_the_whole_tree_later(grass: Grass, project: Path) -> None:
    id_ = grass.enqueue("--hold", "--send", "project", "--", "sh", "-c", "cat in.txt; ./sub/tool")
    blob = next(path for path in blobs_in(grass.home) if path.read_bytes().startswith(b"#!/bin/sh"))
    content = blob.read_bytes()
    blob.unlink()
    os.mkfifo(blob)  # the daemon waits at this file for ever
    grass.ok("release", str(id_))
    aside = tree_of(grass, id_).with_name("tree.new")
    eventually(lambda: list(aside.rglob("in.txt")), "a part of the tree is there")
    grass.ok("show")
    grass.crash()
    assert not tree_of(grass, id_).exists()
    blob.unlink()
    blob.write_bytes(content)
    grass.ok("show")
    grass.until(id_, "succeeded")
    assert grass.log(id_) == f"original\ntool in {tree_of(grass, id_)}\n"
    assert not aside.exists()


def test_a_job_is_killed_while_its_tree_is_made(grass: Grass, project: Path) -> None:
    id_ = grass.enqueue("--hold", "--send", "project", "--", "true")
    blob = next(path for path in blobs_in(grass.home) if path.read_bytes() == b"original\n")
    blob.unlink()
    os.mkfifo(blob)
    grass.ok("release", str(id_))
    eventually(tree_of(grass, id_).with_name("tree.new").exists, "the tree is begun")
    grass.ok("kill", str(id_))
    grass.until(id_, "cancelled")
    blob.open("wb").close()


def test_a_daemon_killed_while_files_come_back_brings_all_of_them_later(grass: Grass, project: Path) -> None:
    make = f"mkdir out; for n in $(seq {MANY}); do echo content $n >out/$n; done"
    id_ = grass.enqueue("--send", "project", "--fetch", "out", "--fetch-to", "back", "--", "sh", "-c", make)
    private = grass.cwd / f".grass-fetch-{id_}-1"
    eventually(lambda: private.exists() or (grass.cwd / "back").exists(), "files are being brought")
    grass.crash()
    assert not (grass.cwd / "back").exists() or len(list((grass.cwd / "back/out").iterdir())) == MANY
    job = grass.until(id_, "succeeded")
    assert job["error"] is None
    back = {int(path.name): path.read_text() for path in (grass.cwd / "back/out").iterdir()}
    assert back == {number: f"content {number}\n" for number in range(1, MANY + 1)}
    assert not private.exists()


def test_a_full_disk_is_said_and_the_job_starts_when_there_is_room(grass: Grass, project: Path, disk: Path) -> None:
    (project / "large").write_bytes(os.urandom(5 << 20))
    id_ = grass.enqueue("--hold", "--send", "project", "--", "wc", "-c", "large")
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - (2 << 20)))
    grass.ok("release", str(id_))
    reason = eventually(lambda: grass.job(id_)["reason"], "the full disk is said")
    assert "No space left on device" in reason
    ballast.unlink()
    grass.until(id_, "succeeded")
    assert grass.log(id_).split()[0] == str(5 << 20)


def test_what_no_unfinished_job_needs_is_removed_when_there_is_too_much(grass: Grass, project: Path) -> None:
    grass.run("--send", "project", "--", "true")
    (grass.cwd / "waits").mkdir()
    (grass.cwd / "waits" / "data").write_text("still needed")
    waiting = grass.enqueue("--hold", "--send", "waits", "--", "cat", "data")
    for path in blobs_in(grass.home):
        os.utime(path, (1, 1))
    grass.ok("stop")
    grass.ok("show", env={"GRASS_SENT_FILES_MIB": "0"})
    eventually(lambda: len(blobs_in(grass.home)) == 2, "the content and the list of the waiting job are left")
    grass.ok("release", str(waiting))
    grass.until(waiting, "succeeded")
    assert grass.log(waiting) == "still needed"
