from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.run.harness import Harness, eventually, mode_of

from grassq.run import rundir

PYTHON = (sys.executable, "-I", "-S", "-c")


@pytest.mark.parametrize("code", [0, 1, 7, 127, 255])
def test_the_exit_code_is_kept(harness: Harness, code: int) -> None:
    path, record = harness.script(f"exit {code}")
    assert (record["code"], record["signal"], record["outcome"], record["error"]) == (code, None, "exited", None)
    assert rundir.read_exit(path) == {"v": 1, **record}


def test_a_wrapper_that_says_why_it_did_not_start_its_command_was_not_spawned(harness: Harness) -> None:
    path, record = harness.script('echo "the setup  failed" >"${GRASS_RUN_DIR%/files}/unstarted"; exit 127')
    said = (record["code"], record["signal"], record["outcome"], record["error"])
    assert said == (None, None, "spawn_failed", "the setup failed")
    assert rundir.read_exit(path) == {"v": 1, **record}
    _, record = harness.script('echo "no" >"${GRASS_RUN_DIR%/files}/unstarted"; exit 126')
    assert (record["code"], record["outcome"]) == (126, "exited"), "any other code is that of the command"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_that_ended_it_is_kept(harness: Harness, number: int) -> None:
    _, record = harness.script(f"kill -{int(number)} $$")
    assert (record["code"], record["signal"], record["outcome"]) == (None, number, "exited")


def test_what_it_used_is_on_record(harness: Harness) -> None:
    _, record = harness.run(*PYTHON, "x = bytearray(64 << 20)\nfor _ in range(10 ** 6): pass")
    assert record["max_rss_kb"] > 64 << 10
    assert record["user_s"] > 0
    assert record["started"] <= record["ended"]


def test_stdout_and_stderr_share_one_log_in_the_order_written(harness: Harness) -> None:
    path, _ = harness.script("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done")
    assert harness.log(path) == b"".join(b"out %d\nerr %d\n" % (i, i) for i in range(1, 6))
    assert mode_of(f"{path}/log") == 0o600


def test_a_split_log_has_a_file_for_each_stream(harness: Harness) -> None:
    path, _ = harness.script("echo out; echo err >&2", split=True)
    assert (harness.log(path, "out"), harness.log(path, "err")) == (b"out\n", b"err\n")
    assert not Path(path, "log").exists()


def test_words_of_any_bytes_reach_the_job(harness: Harness, tmp_path: Path) -> None:
    cwd = os.fsencode(tmp_path) + b"/w\xff d"
    Path(os.fsdecode(cwd)).mkdir()
    path, record = harness.run(
        "/bin/sh", "-c", 'printf "%s|%s|" "$1" "$ODD"; pwd', "sh", b"a\xfe b",
        env={"ODD": b"\xfd\n"}, cwd=rundir.encode_word(cwd),
    )  # fmt: skip
    assert record["code"] == 0
    assert harness.log(path) == b"a\xfe b|\xfd\n|" + cwd + b"\n"


def test_a_missing_program_is_named(harness: Harness) -> None:
    _, record = harness.run("no-such-program-here")
    assert record["outcome"] == "spawn_failed"
    assert record["error"] == "cannot start: there is no program no-such-program-here on the job's PATH"
    assert (record["code"], record["signal"]) == (None, None)
    _, record = harness.run("/no/such/program")
    assert record["error"] == "cannot start: the program /no/such/program does not exist"


def test_a_missing_working_directory_is_named(harness: Harness) -> None:
    path, record = harness.run("true", cwd="/no/such/place")
    assert record["error"] == "cannot start: the working directory /no/such/place does not exist"
    assert rundir.read_exit(path) == {"v": 1, **record}
    _, record = harness.run("true", cwd="/etc/passwd")
    assert record["error"] == "cannot start: the working directory /etc/passwd is not a directory"


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o600, "#!/bin/sh\n", "is not executable; chmod +x it"),
        (0o700, "echo hello\n", "has no #! line"),
        (0o700, "#!/no/such/interpreter\n", "the interpreter or loader that"),
    ],
)
def test_a_file_that_is_no_program_is_explained(
    harness: Harness, tmp_path: Path, mode: int, text: str, said: str
) -> None:
    program = tmp_path / "job.sh"
    program.write_text(text)
    program.chmod(mode)
    _, record = harness.run(str(program))
    assert record["outcome"] == "spawn_failed"
    assert said in record["error"]
    assert str(program) in record["error"]


def test_a_directory_and_a_command_too_long_are_explained(harness: Harness) -> None:
    assert "/tmp is a directory" in harness.run("/tmp")[1]["error"]
    assert "larger than the system allows" in harness.run("true", "x" * (4 << 20))[1]["error"]
    assert "cannot be passed" in harness.run("true", "nul\0inside")[1]["error"]


def test_a_shim_goes_on_after_a_failed_spawn(harness: Harness) -> None:
    assert harness.run("/no/such/program")[1]["outcome"] == "spawn_failed"
    assert harness.run("true")[1]["code"] == 0
    assert harness.shim_pool.idle == 1


def test_a_program_is_found_on_the_path_of_the_job_and_in_its_directory(harness: Harness, tmp_path: Path) -> None:
    shutil.copy("/bin/true", tmp_path / "mine")
    assert harness.run("mine", env={"PATH": str(tmp_path)})[1]["code"] == 0
    assert harness.run("./mine", cwd=str(tmp_path))[1]["code"] == 0


def test_the_job_sees_exactly_the_environment_it_was_given(harness: Harness) -> None:
    path, _ = harness.run("env", "-0", env={"ONLY": "this"})
    seen = dict(entry.split(b"=", 1) for entry in harness.log(path).split(b"\0") if entry)
    assert set(seen) == {b"PATH", b"ONLY", b"GRASS_JOB_ID", b"GRASS_ATTEMPT", b"GRASS_RUN_DIR"}


def test_a_variable_without_a_name_is_left_out(harness: Harness) -> None:
    path, record = harness.run("env", "-0", env={"": "odd", "ONLY": "this"})
    assert record["code"] == 0 and b"ONLY=this" in harness.log(path) and b"=odd" not in harness.log(path)


def test_the_job_starts_with_clean_signals_and_descriptors(harness: Harness) -> None:
    path, _ = harness.run("cat", "/proc/self/status")
    status = dict(line.split(b":\t", 1) for line in harness.log(path).splitlines() if b":\t" in line)
    # Signals 32 and 33 are the C library's own; whoever is started by `make` has them ignored and cannot change that.
    own = ~(3 << 31)
    assert {name: int(status[name], 16) & own for name in (b"SigBlk", b"SigIgn", b"SigCgt", b"SigPnd")} == {
        b"SigBlk": 0, b"SigIgn": 0, b"SigCgt": 0, b"SigPnd": 0,
    }  # fmt: skip
    path, _ = harness.run("ls", "/proc/self/fd")
    assert harness.log(path).split() == [b"0", b"1", b"2", b"3"]  # 3 is the directory it lists
    path, _ = harness.run("readlink", "/proc/self/fd/0")
    assert harness.log(path) == b"/dev/null\n"


def test_the_job_has_its_umask_directory_and_session(harness: Harness, tmp_path: Path) -> None:
    path, _ = harness.script("umask; pwd; cut -d' ' -f1,6 /proc/$$/stat", umask=0o027, cwd=str(tmp_path))
    umask, cwd, ids = harness.log(path).splitlines()
    assert (umask, cwd) == (b"0027", os.fsencode(tmp_path))
    pid, session = ids.split()
    assert pid == session


@pytest.mark.parametrize("program", ["true", "/no/such/program"])
def test_a_shim_is_at_home_again_after_a_start(harness: Harness, tmp_path: Path, program: str) -> None:
    path, _ = harness.run(program, umask=0, cwd=str(tmp_path))
    shim = harness.until("exited", path)["shim"]
    assert str(Path(f"/proc/{shim}/cwd").readlink()) == "/"
    assert "Umask:\t0077\n" in Path(f"/proc/{shim}/status").read_text()


def test_a_stop_found_before_the_spawn_means_do_not_start(harness: Harness, tmp_path: Path) -> None:
    path = harness.prepare("touch", str(tmp_path / "ran"))
    rundir.request_stop(path, 5.0, "changed my mind")
    harness.shim_pool.order(path)
    record = harness.ended(path)
    assert (record["outcome"], record["code"], record["signal"]) == ("cancelled", None, None)
    assert not (tmp_path / "ran").exists()
    assert not harness.heard("started", path)


def test_an_order_that_brings_its_spec_needs_no_file(harness: Harness) -> None:
    path = harness.prepare("/bin/sh", "-c", "echo $ODD", env={"ODD": b"\xfd"})
    spec = packed(path)
    Path(path, "spec.json").unlink()
    harness.shim_pool.order(path, spec)
    assert harness.ended(path)["code"] == 0
    assert harness.log(path) == b"\xfd\n"


def test_a_spec_that_is_too_long_for_an_order_is_read(harness: Harness) -> None:
    path = harness.prepare("/bin/sh", "-c", "echo ${#LONG}", env={"LONG": "x" * 100_000})
    harness.shim_pool.order(path, packed(path))
    assert harness.ended(path)["code"] == 0
    assert harness.log(path) == b"100000\n"


def packed(path: str) -> tuple[Any, ...]:
    spec = rundir.read_spec(path)
    return tuple(getattr(spec, name) for name in rundir.RunSpec.FIELDS)


def test_that_it_started_is_said_once_and_with_its_end_if_that_comes_at_once(harness: Harness) -> None:
    paths = [harness.run("true")[0] for _ in range(20)]
    said = [[report for report in harness.reports if report.get("job") == job] for job in harness.jobs]
    assert [sum("pid" in report for report in about) for about in said] == [1] * len(paths)
    assert any([report["event"] for report in about] == ["exited"] for about in said)
    # Of what was over at once the claim has no note of the command: nobody will ask.
    noted = [(Path(path) / "started").read_text().count('"pid"') for path in paths]
    assert noted == [1 if [report["event"] for report in about] == ["exited"] else 2 for about in said]


def test_an_order_without_a_spec_is_reported(harness: Harness) -> None:
    path = harness.prepare("true")
    Path(path, "spec.json").unlink()
    harness.shim_pool.order(path)

    def bad_specs() -> list[str]:
        harness.heard("bad_spec", path)
        return [report["path"] for report in harness.reports if report["event"] == "bad_spec"]

    assert eventually(bad_specs, "it is said") == [path]
    assert harness.run("true")[1]["code"] == 0


def test_a_directory_in_place_of_the_claim_is_a_claim(harness: Harness) -> None:
    path = harness.prepare("true")
    Path(path, "started").mkdir()
    harness.shim_pool.order(path)
    assert harness.until("duplicate", path)


def test_a_script_that_is_not_executable_runs_under_the_jobs_python(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv)\n")
    path, record = harness.run("train.py", "--lr=1", cwd=str(tmp_path))
    assert record["code"] == 0
    assert harness.log(path) == f"['{tmp_path}/train.py', '--lr=1']\n".encode()


def test_a_program_in_the_working_directory_is_found_without_a_dot(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho tool $1\n")
    (tmp_path / "tool").chmod(0o755)
    path, record = harness.run("tool", "x", cwd=str(tmp_path))
    assert (record["code"], harness.log(path)) == (0, b"tool x\n")


def test_an_empty_command_fails_at_once_with_words_and_the_shim_goes_on(harness: Harness) -> None:
    _, record = harness.run()
    assert record["outcome"] == "spawn_failed"
    assert record["error"] == "cannot start: the command is empty"
    assert harness.run("true")[1]["code"] == 0


def test_the_start_on_record_is_before_the_command(harness: Harness) -> None:
    path, record = harness.run("date", "+%s.%N")
    assert record["started"] <= float(harness.log(path)) <= record["ended"]
