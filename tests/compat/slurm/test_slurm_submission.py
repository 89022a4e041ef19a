"""sbatch's words and scripts as jobs of Grass: pure functions, and the starter run by a shell."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from grassq.compat.slurm.submission import values
from grassq.compat.slurm.submission.arrays import TASKS_MAX, index_ranges, read_array, read_id
from grassq.compat.slurm.submission.begin import begin_at
from grassq.compat.slurm.submission.dependencies import read_dependencies
from grassq.compat.slurm.submission.job_document import (
    SlurmSubmission,
    SlurmSubmitter,
    Work,
    grass_name,
    submission,
)
from grassq.compat.slurm.submission.options import SBATCH, SRUN, Reader
from grassq.compat.slurm.submission.script import SCRIPT_MAX, check_script, read_options, wrapped
from grassq.core.names import is_name
from grassq.errors import BadInput

NOW = datetime(2026, 11, 18, 15, 0, tzinfo=UTC)
SUBMITTER = SlurmSubmitter(b"/work", {b"A": b"1", b"PATH": b"/bin"}, "desk", "ann", 1000, 1000, NOW)


def sent(*words: str, script: bytes = b"#!/bin/sh\ntrue\n", args: Sequence[bytes] = ()) -> SlurmSubmission:
    reader = Reader("sbatch", SBATCH)
    typed = {**read_options(script, reader), **reader.read(words)[0]}
    return submission(typed, Work(script, args, "train.sh"), SUBMITTER, {})


def document_of(made: SlurmSubmission) -> dict[str, Any]:
    """The one job of a call, as it is sent."""
    return {**made.job, "command": made.command}


def job(*words: str, script: bytes = b"#!/bin/sh\ntrue\n") -> dict[str, Any]:
    return sent(*words, script=script).job


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("5:30", 330), ("1:02:03", 3723), ("2-0", 172800), ("1-12", 129600), ("1-12:30", 131400),
        ("1-02:03:04", 93784), ("0", None), ("UNLIMITED", None), ("infinite", None),
    ],
)  # fmt: skip
def test_every_form_of_a_time_is_read(text: str, seconds: float | None) -> None:
    assert values.time_limit_s(text) == seconds


@pytest.mark.parametrize("text", ["", "abc", "-5", "1:2:3:4", "1-", "5m", "9" * 40])
def test_what_is_no_time_is_refused_and_named(text: str) -> None:
    with pytest.raises(BadInput, match="--time"):
        values.time_limit_s(text)


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ((), None),
        (("-c", "4"), {"cpu": 4}),
        (("--gres=gpu:2",), {"cpu": 1, "gpu": 2}),
        (("--gres=gpu:a100:1,printer:2",), {"cpu": 1, "gpu": 1, "printer": 2}),
        (("--gres=gpu:0.5",), {"cpu": 1, "gpu": 0.5}),
        (("-G", "v100:1,a100:2"), {"cpu": 1, "gpu": 3}),
        (("--gpus-per-node=2", "--cpus-per-gpu=3"), {"cpu": 6, "gpu": 2}),
        (("--mem=4G",), {"cpu": 1, "mem": 4096}),
        (("-c2", "--mem-per-cpu=500"), {"cpu": 2, "mem": 1000}),
        (("--mem=0",), None),
        (("--gres=none",), None),
        (("-n1", "-N1", "--ntasks-per-node=1"), None),
    ],
)
def test_amounts_become_a_request(words: tuple[str, ...], request_: object) -> None:
    assert job(*words)["request"] == request_


def test_options_become_fields_of_the_job() -> None:
    made = job(
        "-J", "my run", "-p", "gpu", "-H", "-t", "1:00:00", "--signal=B:USR2@90", "-b", "16:00", "--requeue",
        "-A", "lab", "-D", "/data", "--nice=10", "-w", "node1", "--export=NONE",
    )  # fmt: skip
    assert {name: value for name, value in made.items() if name != "env"} == {
        "name": "my_run", "queue": "gpu", "hold": True, "time_limit_s": 3600.0, "warn_s": 90.0, "warn_signal": "USR2",
        "at": NOW.timestamp() + 3600, "on_lost": "requeue", "project": "lab", "cwd": "/data", "priority": 20,
        "worker": "node1", "env_from": "there", "request": None, "log_max": 0,
    }  # fmt: skip


def test_a_signal_comes_before_the_limit_and_not_without_one() -> None:
    assert "warn_s" not in job("--signal=USR1@60")
    assert (job("-t2", "--signal=USR2@120")["warn_s"], job("-t2", "--signal=10")["warn_signal"]) == (119.0, "USR1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "2"), "one node and one task"),
        (("-N2-4",), "one node and one task"),
        (("--ntasks=4",), "one node and one task"),
        (("--foo",), "'--foo'"),
        (("-Z",), "'Z'"),
        (("--mem",), "'--mem' requires"),
        (("--hold=1",), "doesn't allow"),
        (("--gpu", "1"), "--gpus-per-node"),
        (("-c", "0"), "--cpus-per-task"),
        (("--mem=abc",), "--mem"),
        (("--gres=gpu:x:y:z",), "--gres"),
        (("--array=3-1",), "empty range"),
        (("--array=0-9%0",), "at least one"),
        (("--array=0-",), "is not an index"),
        (("--array=0-999999999",), "at most"),
        (("--signal=FOO@3",), "--signal"),
        (("--begin=foo",), "--begin"),
        (("--open-mode=x",), "--open-mode"),
        (("--export=A B=1",), "not the name of a variable"),
    ],
)
def test_a_wrong_word_is_named_and_nothing_is_made(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        sent(*words)


def test_lines_of_a_script_count_until_the_first_command_and_less_than_words() -> None:
    script = (
        b"#!/bin/bash\n# a comment\n\n#SBATCH -J 'a b'  # why\n##SBATCH -c 9\n#SBATCHX\n#SBATCH --mem=1G -c2\necho\n"
        b"#SBATCH -c 5\n"
    )
    reader = Reader("sbatch", SBATCH)
    assert read_options(script, reader) == {"job-name": "a b", "mem": "1G", "cpus-per-task": "2"}
    assert job("-c", "3", script=script)["request"] == {"cpu": 3, "mem": 1024}
    for line, said in ((b"--foo", "line 2"), (b"-J 'x", "quote.*line 2"), (b"hetjob", "hetjob.*line 2")):
        with pytest.raises(BadInput, match=said):
            read_options(b"#!/bin/sh\n#SBATCH " + line + b"\n", reader)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"), (b" \n", "whitespace"), (b"echo\n", "does not look like"), (b"#!/bin/sh\r\n", "DOS"),
        (b"#!/bin/sh\n\0", "NULL"), (b"#!" + b"x" * SCRIPT_MAX, "bytes"),
    ],
)  # fmt: skip
def test_what_slurm_takes_for_no_script_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_script(content)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", "18 15:00:00"), ("now+1hour", "18 16:00:00"), ("now+90", "18 15:01:30"), ("now+2days", "20 15:00:00"),
        ("16:30", "18 16:30:00"), ("10:00", "19 10:00:00"), ("4:30PM", "18 16:30:00"), ("tomorrow", "19 00:00:00"),
        ("tomorrow 12:00", "19 12:00:00"), ("teatime", "18 16:00:00"), ("midnight", "19 00:00:00"),
        ("today", "18 15:00:00"),
        ("2026-11-20T08:00", "20 08:00:00"), ("2026-11-20T08:00:05", "20 08:00:05"), ("11/21/26", "21 00:00:00"),
        ("11/21 10:00", "21 10:00:00"), ("112126", "21 00:00:00"),
    ],
)  # fmt: skip
def test_every_form_of_a_begin_is_read(text: str, at: str) -> None:
    expected = datetime.strptime(f"2026-11-{at}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert begin_at(text, NOW) == expected.timestamp()


@pytest.mark.parametrize(
    ("text", "now", "at"),
    [
        ("2027-07-01T08:00", datetime(2026, 11, 18, 12), datetime(2027, 7, 1, 6, tzinfo=UTC)),
        ("16:00", datetime(2026, 10, 24, 20), datetime(2026, 10, 25, 15, tzinfo=UTC)),
        ("tomorrow", datetime(2026, 3, 28, 20), datetime(2026, 3, 28, 23, tzinfo=UTC)),
    ],
)
def test_a_begin_beyond_a_change_of_clocks_is_at_the_hour_of_that_day(
    monkeypatch: pytest.MonkeyPatch, text: str, now: datetime, at: datetime
) -> None:
    with monkeypatch.context() as berlin:
        berlin.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert begin_at(text, now) == at.timestamp()
    time.tzset()


def test_arrays_and_ids_are_read() -> None:
    assert read_array("0-15:4%4") == ((0, 4, 8, 12), 4, 4)
    assert read_array("7,1-3") == ((1, 2, 3, 7), None, 1)
    assert len(read_array(f"1-{TASKS_MAX}").indices) == TASKS_MAX
    assert [read_id(text) for text in ("12", "12_3", "12_[1-3,5%2]", "12.batch", "12_3.0")] == [
        (12, None), (12, (3,)), (12, (1, 2, 3, 5)), (12, None), (12, (3,))
    ]  # fmt: skip
    assert index_ranges([3, 1, 2, 7]) == "1-3,7"
    for wrong in ("abc", "12_", "12_x", "-1", "12_[", "1" * 30):
        with pytest.raises(BadInput):
            read_id(wrong)


def test_dependencies_become_fields_and_what_is_not_possible_is_said() -> None:
    read = read_dependencies("afterok:1:2_3,afterany:4,afternotok:5,singleton,after:6+5")
    assert [(field, id_.job, id_.tasks, delay_s) for field, id_, delay_s in read.jobs] == [
        ("after", 1, None, 0), ("after", 2, (3,), 0), ("after_any", 4, None, 0), ("after_fail", 5, None, 0),
        ("started", 6, None, 300),
    ]  # fmt: skip
    assert read.singleton and read_dependencies("aftercorr:1").jobs == read_dependencies("afterok:1").jobs
    for wrong in ("afterok", "afterok:x", "afterok:1?afterok:2", "foo:1", "after:1+x", "afterok:1+5", "singleton:1"):
        with pytest.raises(BadInput):
            read_dependencies(wrong)
    with pytest.raises(BadInput, match="aftercorr"):
        read_dependencies("aftercorr:1", is_array=True)


@pytest.mark.parametrize("name", ["train.sh", "my run", "12", "all", "running", "", "a/b{gpu}", "ü" * 200, "-x", "_"])
def test_every_name_of_slurm_becomes_a_name(name: str) -> None:
    assert is_name(grass_name(name)), name


def test_harmless_options_are_noted_in_one_line_each_and_no_option_is_in_the_table_twice() -> None:
    for program, table in (("sbatch", SBATCH), ("srun", SRUN)):
        names, letters = [each.name for each in table], [each.short for each in table if each.short]
        assert len(names) == len(set(names)) and len(letters) == len(set(letters)), program
    reader = Reader("sbatch", SBATCH)
    typed, rest = reader.read(
        ["--mail-type=END", "--mail-user", "a@b", "-q", "high", "--wckey=x", "--job=j", "s.sh", "-c", "2"]
    )
    assert (typed["job-name"], rest) == ("j", ["s.sh", "-c", "2"])
    notes = reader.notes(typed)
    assert len(notes) == 2 and notes[0].startswith("--mail-type, --mail-user: ") and notes[1].startswith("--qos: ")


def run_starter(folder: Path, made: dict[str, Any], **more: str) -> subprocess.CompletedProcess[bytes]:
    """Start a job as a worker does, with its output in a log."""
    run_dir = folder / "run"
    run_dir.mkdir(exist_ok=True)
    env = {
        "PATH": os.environ["PATH"], "GRASS_JOB_ID": "12", "GRASS_ATTEMPT": "1", "GRASS_WORKER": "desk.lan",
        "GRASS_RUN_DIR": str(run_dir), **{name: value for name, value in made["env"]}, **more,
    }  # fmt: skip
    with (folder / "log").open("ab") as log:
        return subprocess.run(made["command"], cwd=folder, env=env, stdout=log, stderr=log, check=False)


def test_a_job_starts_its_script_with_slurms_variables_and_its_own_words(tmp_path: Path) -> None:
    script = (
        b'#!/bin/bash -u\necho "$#:$1:$2:{gpu}:{{job.id}}:\'"; echo $- ${0##*/} >&2\n'
        b"env | grep -E '^(SLURM|SBATCH|N=|X=)' | sort\nexit 7\n"
    )
    words = ("-J", "a 'b", "-o", "%x-%j-%5j-%N-%u-%%.out", "--gres=gpu:2", "--export=ALL,X=a b")
    made = document_of(sent(*words, script=script, args=(b"it's {gpu}", b"")))
    done = run_starter(tmp_path, made, N="mine", GRASS_GPU="0,3", SLURM_ARRAY_TASK_ID="old")
    out = (tmp_path / "a 'b-12-00012-desk-ann-%.out").read_text()
    assert done.returncode == 7
    assert out == (tmp_path / "log").read_text()  # one file with two names
    lines = out.splitlines()
    assert lines[0] == "2:it's {gpu}::{gpu}:{{job.id}}:'"
    assert "u" in lines[1] and lines[1].endswith(" slurm_script")
    env = dict(line.split("=", 1) for line in lines[2:])
    assert (env["N"], env["X"]) == ("mine", "a b")
    assert not {"SBATCH_STARTER", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT"} & env.keys()
    expected = {"JOB_ID": "12", "JOB_NAME": "a 'b", "JOB_GPUS": "0,3", "GPUS_ON_NODE": "2", "SUBMIT_DIR": "/work"}
    expected |= {"SUBMIT_HOST": "desk", "JOB_NODELIST": "desk.lan", "NTASKS": "1", "NNODES": "1", "PROCID": "0"}
    assert {name: env[f"SLURM_{name}"] for name in expected} == expected


def test_a_second_run_replaces_the_file_append_adds_to_it_and_errors_have_their_own(tmp_path: Path) -> None:
    made = document_of(sent("-o", "deep/er/out.txt", script=wrapped("echo one; echo two >&2")))
    for _ in range(2):
        run_starter(tmp_path, made)
    assert (tmp_path / "deep/er/out.txt").read_text().startswith("one\ntwo\n")
    (tmp_path / "log").unlink()
    apart = document_of(
        sent("-o", "o.txt", "-e", "e.txt", "--open-mode=append", script=wrapped("echo one; echo two >&2"))
    )
    for _ in range(2):
        run_starter(tmp_path, apart)
    assert ((tmp_path / "o.txt").read_text(), (tmp_path / "e.txt").read_text()) == ("one\none\n", "two\ntwo\n")
    assert (tmp_path / "log").read_text() == 2 * "grass: the output is in o.txt, the errors are in e.txt\n"


def test_a_task_of_an_array_is_told_its_index_also_of_a_list_with_gaps(tmp_path: Path) -> None:
    script = wrapped("echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_STEP")
    for text, position, said in (("0-15:4%2", 2, "10 8 4 4\n"), ("1,5,7", 2, "10 7 3 1\n")):
        made = sent("-a", text, script=script)
        index = read_array(text).indices[position]
        run_starter(tmp_path, document_of(made), GRASS_ARRAY_INDEX=str(index))
        assert (tmp_path / f"slurm-10_{index}.out").read_text() == said
        (tmp_path / "log").unlink()
    with pytest.raises(BadInput):
        sent("-a", f"0-{TASKS_MAX}")


def test_a_long_script_is_carried_by_several_variables(tmp_path: Path) -> None:
    script = b"#!/bin/sh\n# " + b"'x" * 100_000 + b"\necho long\n"
    made = document_of(sent(script=script))
    assert len(made["env"]) > 2 and max(len(value) for _, value in made["env"]) < 128 << 10
    assert run_starter(tmp_path, made).returncode == 0
    assert (tmp_path / "slurm-12.out").read_text() == "long\n"
