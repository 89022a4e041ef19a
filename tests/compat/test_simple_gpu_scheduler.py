"""Every command of its README as typed there, with a real daemon and real processes."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from tests.compat.schedulers import GATE, Scheduler, others, processing
from tests.e2e.world import eventually

from grassq.compat.simple_gpu_scheduler.command_reader import COMMAND_MAX

#: A training that ends when three of them run.
TRAIN = """
import pathlib, sys, time
pathlib.Path(sys.argv[-1]).touch()
while len(list(pathlib.Path().glob("run_*"))) < 3:
    time.sleep(0.02)
"""
COMMANDS = (
    "python train_model.py --lr 0.001 --output run_1",
    "python train_model.py --lr 0.0005 --output run_2",
    "python train_model.py --lr 0.0001 --output run_3",
)
README = """\
Processing command `python train_model.py --lr 0.001 --output run_1` on gpu 2
Processing command `python train_model.py --lr 0.0005 --output run_2` on gpu 1
Processing command `python train_model.py --lr 0.0001 --output run_3` on gpu 0
"""


@pytest.mark.parametrize("gpus", ["0 1 2", "0,1,2", "0-2"])
def test_the_readme_example_says_byte_for_byte_what_the_readme_shows(scheduler: Scheduler, gpus: str) -> None:
    """F41, F42, F43, F46."""
    scheduler.file("train_model.py", TRAIN)
    scheduler.file("gpu_commands.txt", *COMMANDS)
    done = scheduler.typed(f"simple_gpu_scheduler --gpus {gpus} < gpu_commands.txt")
    assert done == (0, README, "")
    assert scheduler.states() == ["succeeded"] * 3


def test_jobs_are_kept_and_the_queue_goes(scheduler: Scheduler) -> None:
    """F41: listed by `grass show`, readable by `grass log`."""
    done = scheduler.piped("echo one; echo two >&2\n", "--gpus", "0")
    assert done == (0, "Processing command `echo one; echo two >&2` on gpu 0\none\ntwo\n", "")
    assert scheduler.log(1) == "one\ntwo\n"
    assert scheduler.job(1)["queue"].startswith("sgs-")
    eventually(
        lambda: all(not q["name"].startswith("sgs-") for q in scheduler.json("show")["queues"]), "the queue goes"
    )
    assert not list((scheduler.home / "sgs").iterdir())


def test_a_word_with_a_comma_among_several_is_one_place_with_several_gpus(scheduler: Scheduler) -> None:
    """F42, T1: the mixed form makes a pair slot."""
    line = f"echo $CUDA_VISIBLE_DEVICES; touch at.$CUDA_VISIBLE_DEVICES; {GATE.format('at.1,0')}"
    done = scheduler.piped(f"{line}\n{line}\n", "--gpus", "1,0", "2")
    assert [gpu for _, gpu in processing(done.out)] == ["2", "1,0"]
    assert sorted(others(done.out)) == ["1,0", "2"]


def test_a_command_sees_the_gpu_that_was_announced(scheduler: Scheduler) -> None:
    """F44."""
    lines = [f"echo {number} $CUDA_VISIBLE_DEVICES" for number in range(12)]
    done = scheduler.piped("\n".join(lines), "--gpus", "3", "5-6", env={"CUDA_VISIBLE_DEVICES": "9"})
    announced = {line.split()[1]: gpu for line, gpu in processing(done.out)}
    assert sorted(others(done.out)) == sorted(f"{number} {gpu}" for number, gpu in announced.items())
    assert set(announced.values()) <= {"3", "5", "6"} and len(announced) == 12


def test_pipes_and_redirections_work_in_the_users_shell(scheduler: Scheduler) -> None:
    """F45, T11."""
    lines = (
        "echo b > file\necho a | tr a c >> file\n[[ 1 == 1 ]] && cat file\nX=y env | grep ^X=\ncat < file | sort -r\n"
    )
    done = scheduler.piped(lines, "--gpus", "0", env={"SHELL": "/bin/bash"})
    assert done.code == 0, done
    assert others(done.out) == ["b", "c", "X=y", "c", "b"]


def test_a_line_runs_where_and_as_it_was_typed(scheduler: Scheduler) -> None:
    """Directory, environment and umask are the caller's; bytes and braces pass as they are."""
    lines = b"pwd\necho $MINE\numask\necho \xff{gpu}{{gpu}}{lr}{mem}\n  echo blank  \n"
    done = scheduler.piped(lines, "--gpus", "0", env={"MINE": "mine"})
    mask = subprocess.run(["sh", "-c", "umask"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    assert others(done.out) == [str(scheduler.cwd), "mine", mask, "\udcff{gpu}{{gpu}}{lr}{mem}", "blank"]
    assert "Processing command `  echo blank` on gpu 0\n" in done.out


def test_there_is_one_command_at_a_time_on_a_gpu(scheduler: Scheduler) -> None:
    """F46."""
    line = "mkdir $CUDA_VISIBLE_DEVICES && sleep 0.05 && rmdir $CUDA_VISIBLE_DEVICES"
    done = scheduler.piped(f"{line}\n" * 20, "--gpus", "0", "1")
    assert (done.code, done.err) == (0, "")
    assert {gpu for _, gpu in processing(done.out)} == {"0", "1"}


@pytest.mark.parametrize(
    "words", [("--gpus", "0,0,1"), ("--gpus", "0", "0", "1"), ("--gpus", "0,1", "--jobs-per-gpu", "2")]
)
def test_several_at_a_time_on_one_gpu(scheduler: Scheduler, words: tuple[str, ...]) -> None:
    """F47: by repeating its id, or by --jobs-per-gpu."""
    places = 4 if "--jobs-per-gpu" in words else 3
    line = f"mktemp -p . here.XXXXXX; until [ $(ls here.* | wc -l) = {places} ]; do sleep 0.02; done"
    done = scheduler.piped(f"{line}\n" * places, *words)
    assert done.code == 0, done
    gpus = sorted(gpu for _, gpu in processing(done.out))
    assert gpus == (["0", "0", "1", "1"] if places == 4 else ["0", "0", "1"])


def test_fifty_lines_end_in_their_order_on_one_gpu(scheduler: Scheduler) -> None:
    """F48."""
    done = scheduler.piped("".join(f"echo {number} >> order\n" for number in range(50)), "--gpus", "7")
    assert done.code == 0
    assert (scheduler.cwd / "order").read_text().split() == [str(number) for number in range(50)]
    assert [int(line.split()[1]) for line, _ in processing(done.out)] == list(range(50))


def test_a_queue_file_that_is_followed(scheduler: Scheduler) -> None:
    """F49: what is appended starts within half a second; what was there before is not run."""
    scheduler.ok("start")
    scheduler.file("gpu.queue", "touch earlier")
    words = ["tail", "-f", "-n", "0", "gpu.queue"]
    with subprocess.Popen(words, cwd=scheduler.cwd, stdout=subprocess.PIPE) as tail:
        call = scheduler.call("--gpus", "0,1,2", stdin=tail.stdout)
        eventually(lambda: len(scheduler.json("show")["queues"]) == 2, "it waits for lines")
        took = []
        for number in range(3):
            began = time.monotonic()
            scheduler.bash(f'echo "echo my_command_with | cat > logfile{number}" >> gpu.queue')
            call.until_out(f"logfile{number}` on gpu")
            took.append(time.monotonic() - began)
            scheduler.made(f"logfile{number}")
        # Of several: a test machine is busy with other tests.
        assert min(took) < 0.5
        tail.terminate()
    assert call.process.wait(30) == 0
    assert len(scheduler.jobs()) == 3
    assert not (scheduler.cwd / "earlier").exists()


@pytest.mark.parametrize(("words", "count"), [("", 9), ("--n-samples 5 ", 5)])
def test_a_search_is_piped_into_it(scheduler: Scheduler, words: str, count: int) -> None:
    """F41, F50, F51: the README's two lines."""
    scheduler.file("train_dnn.py", "import sys", "print(*sys.argv[1:])")
    done = scheduler.typed(
        f'simple_hypersearch "python3 train_dnn.py --lr {{lr}} --batch_size {{bs}}" {words}'
        "-p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2"
    )
    assert (done.code, done.err) == (0, "")
    grid = {f"--lr {lr} --batch_size {size}" for lr in ("0.001", "0.0005", "0.0001") for size in (32, 64, 128)}
    written = others(done.out)
    assert len(written) == len(set(written)) == count and set(written) <= grid


def test_the_help_names_every_flag(scheduler: Scheduler) -> None:
    """F53."""
    done = scheduler.typed("simple_gpu_scheduler -h")
    assert (done.code, done.err) == (0, "")
    for word in ("--gpus", "--jobs-per-gpu", "--always-zero", "-h", "backslash", "<<WORD", "SIGTERM", "exit code"):
        assert word in done.out
    assert not scheduler.home.exists()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--gpus",
        "--gpus 0,,1",
        "--gpus ''",
        "--gpus 0,0 1",
        "--gpus 0 --jobs-per-gpu 0",
        "--gpus 0 --what",
        "--gpus 3-1",
    ],
)
def test_what_makes_no_sense_is_a_usage_line_and_exit_code_2(scheduler: Scheduler, words: str) -> None:
    """F42, T1."""
    done = scheduler.typed(f"simple_gpu_scheduler {words} < /dev/null")
    assert done.code == 2 and done.out == "", done
    assert done.err.startswith("usage: simple_gpu_scheduler ")
    assert done.err.splitlines()[-1].startswith("simple_gpu_scheduler: error: ")
    assert not scheduler.home.exists()


def test_a_command_of_three_lines_runs_once_in_order_on_one_gpu(scheduler: Scheduler) -> None:
    """F54, T26: a block, and lines joined by a backslash."""
    lines = "<<END\necho one $CUDA_VISIBLE_DEVICES\necho two\necho three\nEND\necho four \\\n  five \\\nsix\n"
    done = scheduler.piped(lines, "--gpus", "4")
    assert done == (
        0,
        "Processing command `echo one $CUDA_VISIBLE_DEVICES ...` on gpu 4\none 4\ntwo\nthree\n"
        "Processing command `echo four   five six` on gpu 4\nfour five six\n",
        "",
    )
    assert len(scheduler.jobs()) == 2


@pytest.mark.parametrize("rest", ["<<END\necho b\n", "echo b \\\n", "echo \0\n", "x" * (COMMAND_MAX + 1) + "\n"])
def test_what_is_no_whole_command_is_not_started_and_the_others_are(scheduler: Scheduler, rest: str) -> None:
    """F54: exit code 2, said on stderr."""
    done = scheduler.piped(f"echo a\n{rest}", "--gpus", "0")
    assert done.code == 2, done
    assert others(done.out) == ["a"]
    said = done.err.splitlines()
    assert said[0].startswith("simple_gpu_scheduler: line 2: ") and said[0].endswith("; skipped")
    assert said[1:] == ["simple_gpu_scheduler: 1 succeeded, 0 failed, 1 not started"]


def test_a_command_the_daemon_does_not_take_is_not_started_and_the_others_are(scheduler: Scheduler) -> None:
    """F54: a script that ends in a backslash, among others that are handed over with it."""
    done = scheduler.piped("echo a\n<<E\necho no\\\nE\necho b\n", "--gpus", "0")
    assert (done.code, others(done.out)) == (2, ["a", "b"])
    assert done.err.startswith("simple_gpu_scheduler: echo no\\: the command ends in a backslash")
    assert done.err.endswith("simple_gpu_scheduler: 2 succeeded, 0 failed, 1 not started\n")


def test_the_exit_code_tells_that_a_command_failed(scheduler: Scheduler) -> None:
    """F57, T23."""
    done = scheduler.piped("true\nexit 3\ntrue\nno_such_program\n", "--gpus", "0")
    assert done.code == 1
    assert done.err.splitlines() == [
        "simple_gpu_scheduler: `exit 3` failed (exit code 3); grass log 2",
        "simple_gpu_scheduler: `no_such_program` failed (exit code 127); grass log 4",
        "simple_gpu_scheduler: 2 succeeded, 2 failed, 0 not started",
    ]


def test_a_command_that_somebody_cancels_has_not_succeeded(scheduler: Scheduler) -> None:
    """F57."""
    call = scheduler.call("--gpus", "0")
    call.write("touch begun; exec sleep 1000", "echo never", "echo last")
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 3, "all are handed over")
    scheduler.ok("kill", "2")
    scheduler.ok("kill", "1")
    assert call.end() == 1
    assert others(call.out()) == ["last"]
    assert call.err().splitlines() == [
        "simple_gpu_scheduler: `echo never` was cancelled; grass log 2",
        "simple_gpu_scheduler: `touch begun; exec sleep 1000` was cancelled; grass log 1",
        "simple_gpu_scheduler: 1 succeeded, 1 failed, 1 not started",
    ]


def test_always_zero_restores_the_old_habit(scheduler: Scheduler) -> None:
    """F57, T23."""
    done = scheduler.piped("false\n", "--gpus", "0", "--always-zero")
    assert done.code == 0
    assert "0 succeeded, 1 failed" in done.err


def test_a_command_cannot_eat_those_that_follow_it(scheduler: Scheduler) -> None:
    """Stdin of a command is empty."""
    done = scheduler.piped("cat; echo end\ncat\necho last\n", "--gpus", "0")
    assert (done.code, others(done.out)) == (0, ["end", "last"])


def test_blank_lines_and_comments_are_skipped(scheduler: Scheduler) -> None:
    """T24."""
    done = scheduler.piped("\n# no\n  \necho a\n", "--gpus", "0")
    assert done == (0, "Processing command `echo a` on gpu 0\na\n", "")


def test_no_line_at_all_is_no_mistake(scheduler: Scheduler) -> None:
    assert scheduler.typed("simple_gpu_scheduler --gpus 0 < /dev/null") == (0, "", "")
    assert scheduler.typed("simple_gpu_scheduler --gpus 0 <&-") == (0, "", "")


def test_output_passes_in_whole_lines_while_commands_run(scheduler: Scheduler) -> None:
    """T22: live, and the last line as it is."""
    call = scheduler.call("--gpus", "0", "1")
    line = "for i in 1 2 3; do printf {0}; sleep 0.01; echo {0}; done; touch {0}; until [ -e go ]; do sleep 0.01; done"
    call.write(line.format("a"), line.format("b"))
    eventually(lambda: len(others(call.out())) == 6, "lines of both, while both run")
    assert sorted(others(call.out())) == ["aa"] * 3 + ["bb"] * 3
    (scheduler.cwd / "go").touch()
    call.write("printf last")
    assert call.end() == 0
    assert call.out().endswith("` on gpu 1\nlast") or call.out().endswith("` on gpu 0\nlast")


def test_two_calls_on_the_same_gpus_share_them(scheduler: Scheduler) -> None:
    """F46: two calls never hand out one device twice."""
    line = "mkdir gpu.$CUDA_VISIBLE_DEVICES && sleep 0.05 && rmdir gpu.$CUDA_VISIBLE_DEVICES"
    calls = [scheduler.call("--gpus", "0", "1") for _ in range(2)]
    for call in calls:
        call.write(*[line] * 10)
    assert [call.end() for call in calls] == [0, 0]
    assert [call.err() for call in calls] == ["", ""]
    assert re.fullmatch(r"(Processing .* on gpu [01]\n){10}", calls[0].out())


def test_what_others_hold_is_waited_for(scheduler: Scheduler) -> None:
    scheduler.ok("create-queue", "ours", "--gpu=[0]")
    held = scheduler.gated("gate", "ours", "--gpu=1")
    scheduler.until(held, "running")
    call = scheduler.call("--gpus", "0")
    call.write("echo a")
    eventually(lambda: len(scheduler.jobs()) == 2, "it is handed over")
    assert call.out() == ""
    scheduler.open_gate("gate")
    assert call.end() == 0
    assert others(call.out()) == ["a"]


def test_nothing_is_done_while_nothing_happens(scheduler: Scheduler) -> None:
    """F49: for days at no cost."""
    call = scheduler.call("--gpus", "0")
    call.write("echo a")
    call.until_out("\na\n")

    def wakeups() -> int:
        tasks = Path(f"/proc/{call.pid}/task").iterdir()
        counts = (re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text()) for task in tasks)
        return sum(int(count[1]) for count in counts if count)

    eventually(lambda: scheduler.job(1)["state"] == "succeeded", "it has ended")
    time.sleep(0.2)
    before = wakeups()
    time.sleep(2.0)  # the one thing that is about time: what happens in it
    assert wakeups() - before <= 2
    assert call.end() == 0
