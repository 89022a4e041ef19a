"""The words of execute_batch and execute_remote: what is typed, the lines of a file, and what is printed."""

from __future__ import annotations

import os
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from grassq.compat.execute_batch import batch_file, output
from grassq.compat.execute_batch.arguments import EVERYTHING, read_batch, read_line, read_remote
from grassq.compat.execute_batch.batch_file import BatchLine
from grassq.compat.execute_batch.job_document import SCRIPT, VARIABLE, bash_words
from grassq.core.syntax.placeholders import fill, placeholders
from grassq.errors import BadInput

README_LINES = [
    "example/batch_script.sh --machines example/machine.yaml example/machine2.yaml",
    "example/batch_script.sh --machines example/machine.yaml --no-gpu-required",
    "example/batch_script.sh --machines example/machine.yaml"
    " --memory-required=10000 --gpu-memory-required=3000 --no-reserve-gpu",
    "example/batch_script.sh --machines example/machine.yaml --num-cpus=8 --gpu-utilization=0.5",
    "example/batch_script.sh --machines example/machine.yaml --reserve",
    "example/batch_script.sh --machines my_machine.yaml --memory-required=2000",
]


@pytest.mark.parametrize("line", README_LINES)
def test_every_line_of_the_readme_is_understood(line: str) -> None:
    assert read_batch(line.split()).file == "example/batch_script.sh"


def test_defaults_are_those_of_ml_scheduler() -> None:
    typed = read_batch(["f", "--machines", "m"])
    assert (typed.forward, typed.backwards) == (EVERYTHING, EVERYTHING)
    needs = typed.needs
    assert [needs.cpus, needs.memory_mib, needs.gpu_memory_mib] == [1, 7000, 1000]
    assert needs.gpu_utilisation == Fraction(3, 4)
    assert needs.needs_gpu and needs.reserves_gpu and not needs.reserves_machine


def test_both_spellings_of_the_copies_are_taken() -> None:
    for forward, backwards in (("--copy-forward", "--copy-backwards"), ("--copy-forwards", "--copy-backward")):
        typed = read_batch(["f", "--machines", "m", forward, "a", "b", backwards, "c"])
        assert (typed.forward, typed.backwards) == (("a", "b"), ("c",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "FILE is missing"),
        (["f"], "--machines is missing"),
        (["--machines", "m.yaml"], "FILE is missing"),
        (["f", "--machines"], "expected at least one argument"),
        (["f", "--machines", "m", "--memory-required", "10k"], "'10k' is not a whole number of megabytes"),
        (["f", "--machines", "m", "--memory-required=-1"], "'-1' is not a whole number of megabytes"),
        (["f", "--machines", "m", "--gpu-utilization", "half"], "'half' is not a number"),
        (["f", "--machines", "m", "--gpu-utilization", "nan"], "'nan' is not a number"),
        (["f", "--machines", "m", "--gpu-utilization=-1"], "'-1' is not a number from 0 up, such as 8 or 0.5"),
        (["f", "--machines", "m", "--num-cpus", "1e9"], "'1e9' is not a number"),
        (["f", "--machines", "m", "--gpu-mem", "5"], "unrecognized arguments"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_batch(words)
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith("execute_batch: ") and printed.err.count("\n") == 1
    assert said in printed.err


def test_t10_a_file_that_machines_has_swallowed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("batch.sh").touch()
    with pytest.raises(SystemExit):
        read_batch(["--machines", "a.yaml", "batch.sh"])
    assert "--machines has taken batch.sh as a machine; write FILE first" in capsys.readouterr().err


def test_words_of_execute_remote_are_read() -> None:
    typed = read_remote(["--machine", "m", "echo hi", "--copy-forward", "a", "--job-name", "x"])
    assert typed.machine == "m"
    assert typed.job == read_line(["echo hi", "--copy-forward", "a", "--job-name", "x"])
    assert (typed.job.command, typed.job.forward, typed.job.name) == ("echo hi", ("a",), "x")
    for words in (["--copy-forward", "a", "echo hi"], ["echo hi", "--job-name", "../x"], ["echo hi", "--job-name", ""]):
        with pytest.raises(BadInput):
            read_line(words)


def lines_of(path: Path, text: str, *, kabuki: bool = False) -> list[BatchLine]:
    """The commands of a file with this text."""
    path.write_text(text)
    return batch_file.read(path.name, str(path.parent), EVERYTHING, EVERYTHING, kabuki)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "batch.sh"


def test_t24_blank_lines_and_comments_are_no_jobs_and_keep_their_numbers(file: Path) -> None:
    found = lines_of(file, "# first\n\necho one\n   # indented\n  echo two\r\n")
    assert [(line.number, line.name, line.command) for line in found] == [
        (3, "batch.sh.3", b"echo one"),
        (5, "batch.sh.5", b"echo two"),
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("example/batch_script.sh", "example_batch_script.sh"),
        ("./x.sh", "x.sh"),
        ("a//b/../x.sh", "a_x.sh"),
        ("/tmp/x.sh", "_tmp_x.sh"),
        ("../x.sh", "_home_x.sh"),
        (".hidden.sh", "_.hidden.sh"),
        ("a\nb", "a_b"),
    ],
)
def test_t52_jobs_are_named_after_the_normalised_path(path: str, name: str) -> None:
    assert batch_file.batch_name(path, "/home/ann") == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "batch.sh has no command in it"),
        ("# only this\n", "batch.sh has no command in it"),
        ("echo \0\n", "batch.sh line 1: the command holds a NUL byte"),
        ("true\necho \\\n", "batch.sh line 2: the command ends in a backslash"),
    ],
)
def test_a_file_that_is_no_batch_is_refused_by_its_line(file: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lines_of(file, text)


def test_a_missing_file_is_refused(file: Path) -> None:
    with pytest.raises(BadInput, match=r"batch\.sh cannot be read: No such file"):
        batch_file.read(file.name, str(file.parent), EVERYTHING, EVERYTHING, False)


def test_kabuki_lines_have_copies_and_names_of_their_own(file: Path) -> None:
    text = "'echo a' --copy-forward src --job-name mine\nexecute_remote \"echo 'b c'\" --copy-backwards out log\n"
    first, second = lines_of(file, text, kabuki=True)
    assert first == BatchLine(1, "mine", b"echo a", ("src",), EVERYTHING)
    assert second == BatchLine(2, "batch.sh.2", b"echo 'b c'", EVERYTHING, ("out", "log"))
    for wrong in ("'echo", "--copy-forward a 'echo b'", "'a' --machine m", "a --job-name x\nb --job-name x"):
        with pytest.raises(BadInput):
            lines_of(file, wrong, kabuki=True)


def test_f96_lines_are_printed_as_in_the_readme() -> None:
    assert output.limits_lines({"my_machine.yaml": (0, 1)}) == [
        "machine limits:  {'my_machine.yaml': 2}",
        "machine gpu choices: [[0, 1]]",
    ]
    assert output.limits_lines({"a.yaml": (None, None), "b.yaml": ()})[1] == "machine gpu choices: [[], []]"
    assert output.warning_line(3) == (
        "WARNING: job results already exists for line 3, skipping evaluation: delete if you wish to rerun"
    )
    line = BatchLine(1, "example_batch_script.sh.1", b'echo "one job"')
    started = b'started: example_batch_script.sh.1;  export CUDA_VISIBLE_DEVICES=0 && echo "one job"'
    assert output.started_line(line, "0") == started
    assert output.started_line(line, "") == b'started: example_batch_script.sh.1;  echo "one job"'
    assert output.ended_line(line, is_ok=True) == b'finished: example_batch_script.sh.1; echo "one job"'
    assert output.ended_line(line, is_ok=False) == b'failed: example_batch_script.sh.1; echo "one job"'
    assert output.skipped_line(line) == b'skipping echo "one job"'


NOISY = """
echo noise; echo noise >&2
case $- in *i*) ;; *) return;; esac
hello() { echo "hello $1 $word"; }
alias hi='echo hi'
word=there
export CUDA_VISIBLE_DEVICES=7 OWN=1
readonly fixed=1
"""


def run_line(line: bytes, home: Path, *, by_gpu: bool = True, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line as a job would."""
    held = {b"gpu": b"5", b"slot": b"6"} if by_gpu else {b"batch_1": b"0"}
    words = [fill(word, {b"job.id": b"7", **held}) for word in bash_words(line, by_gpu=by_gpu)]
    assert by_gpu or not any(map(placeholders, words))
    given = {"HOME": str(home), "PATH": os.defpath, VARIABLE.decode(): SCRIPT.decode(), **env}
    return subprocess.run(words, env=given, capture_output=True, timeout=60, check=False)


def test_a_line_uses_what_bashrc_defines_without_its_noise(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text(NOISY)
    done = run_line(
        b'hello you && hi there; echo $OWN $CUDA_VISIBLE_DEVICES "$-"; exit 3', tmp_path, CUDA_VISIBLE_DEVICES="0"
    )
    assert (done.returncode, done.stderr) == (3, b"")
    assert done.stdout.splitlines()[:2] == [b"hello you there", b"hi there"]
    assert done.stdout.splitlines()[2].startswith(b"1 0 ") and b"i" not in done.stdout.splitlines()[2]


@pytest.mark.parametrize("bashrc", ["exit 5\n", "exec false\n", "read x\n", "set -e; false\n", "syntax error ((\n"])
def test_a_bashrc_that_breaks_does_not_break_the_line(tmp_path: Path, bashrc: str) -> None:
    (tmp_path / ".bashrc").write_text(bashrc)
    done = run_line(b"echo fine", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"fine\n", b"")


@pytest.mark.parametrize(
    ("line", "out"),
    [
        (b'echo "{gpu} {slot} ${HOME+home} {job.id} {{gpu}}"', b"{gpu} {slot} home {job.id} {{gpu}}\n"),
        (b'echo "a!b" `echo c` $((1 + 2)) # comment', b"a!b c 3\n"),
        (b"echo x & wait", b"x\n"),
        (b"env | grep -c EXECUTE_BATCH", b"0\n"),
        (b"echo $0 $#", b"bash 0\n"),
        (b"echo {a} $0 $# {}", b"{a} bash 0 {}\n"),
        (b"echo \xff", b"\xff\n"),
    ],
)
def test_a_line_reaches_bash_as_it_is(tmp_path: Path, line: bytes, out: bytes) -> None:
    for by_gpu in (True, False):
        assert run_line(line, tmp_path, by_gpu=by_gpu).stdout == out
