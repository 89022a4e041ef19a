"""simple_hypersearch as it is typed: the lines of its README, its help, its complaints, and that it begins at once."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat import original

from grassq.compat.simple_hypersearch import BLOCK_BYTES, BLOCK_LINES

ROOT = Path(__file__).parents[2]
PROGRAM = str(ROOT / "bin" / "simple_hypersearch")

PATTERN = "python3 train_dnn.py --lr {lr} --batch_size {bs}"
PARAMETERS = ("-p", "lr", "0.001", "0.0005", "0.0001", "-p", "bs", "32", "64", "128")
POINTS = [
    f"python3 train_dnn.py --lr {lr} --batch_size {bs}" for lr in ("0.001", "0.0005", "0.0001") for bs in (32, 64, 128)
]
#: Ten million points.
TEN = [str(digit) for digit in range(10)]
MANY = ("{a}{b}{c}{d}{e}{f}{g}", *(word for name in "abcdefg" for word in ("-p", name, *TEN)))

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
HEAVY = {"argparse", "re", "random", "typing", "enum", "functools", "collections", "json", "msgspec", "dataclasses"}


def search(*words: str | bytes, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Run simple_hypersearch to its end."""
    argv = [os.fsencode(word) for word in (sys.executable, program, *words)]
    done = subprocess.run(
        argv, env=ENVIRONMENT, capture_output=True, encoding="utf-8", errors="surrogateescape", timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return done


def lines(*words: str | bytes) -> list[str]:
    """What it prints where nothing is wrong."""
    done = search(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_readme_grid_comes_whole_in_random_order() -> None:
    runs = [lines(PATTERN, *PARAMETERS) for _ in range(4)]
    assert all(sorted(run) == sorted(POINTS) for run in runs)
    # Four times the same of 9! orders would be a wonder.
    assert len({tuple(run) for run in runs}) > 1


def test_the_readme_samples_are_five_different_points() -> None:
    found = lines(PATTERN, "--n-samples", "5", *PARAMETERS)
    assert len(found) == len(set(found)) == 5
    assert set(found) < set(POINTS)


def test_a_seed_fixes_the_order() -> None:
    first, again, other = (lines(PATTERN, *PARAMETERS, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again != other
    assert lines(PATTERN, *PARAMETERS, "--seed", "1", "--n-samples", "4") == first[:4]


def test_the_grid_is_that_of_nested_loops() -> None:
    assert lines(PATTERN, *PARAMETERS, "--sampling-mode", "grid") == POINTS
    assert lines(PATTERN, *PARAMETERS, "--sampling-mode=grid", "--n-samples=2") == POINTS[:2]
    assert lines(PATTERN, *PARAMETERS, "--n-samples", "0") == []


def test_words_of_any_kind_are_put_in_as_they_are() -> None:
    words = ("x {a} ${{HOME}}", "--parameter", "a", "-0.1", "two words", "$(id)", "é", b"\xff", "", "-x")
    assert lines(*words, "--sampling-mode", "grid") == [
        f"x {value} ${{HOME}}" for value in ("-0.1", "two words", "$(id)", "é", "\udcff", "", "-x")
    ]


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_the_help_names_every_flag(word: str) -> None:
    done = search("x", word)
    assert (done.returncode, done.stderr) == (0, "")
    for flag in ("-p", "--parameter", "--n-samples", "--sampling-mode", "shuffled_grid", "grid", "--seed", "--help"):
        assert flag in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{x} {y}", "-p", "x", "1"], "{y} has no values: add -p y VALUE..., or write {{y}} for the text {y}"),
        (["{}"], "{} names no parameter; write {{}} for the text {}"),
        (["${HOME} {x}", "-p", "x", "1"], "or write ${{HOME}} for the text ${HOME}"),
        (["{x}", "-p", "x"], "parameter 'x' has no values"),
        (["{x}", "-p", "x", "1", "--n-samples", "-1"], "--n-samples needs a whole number, 0 or more, not '-1'"),
        (["{x}", "-p", "x", "1", "--sampling-mode", "best"], "--sampling-mode is shuffled_grid or grid, not 'best'"),
        (["{x}", "-p", "x", "1", "--sede", "1"], "unknown option '--sede'"),
        ([], "the command is missing"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_2(words: list[str], said: str) -> None:
    done = search(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("simple_hypersearch: ") and said in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_probably_not_meant_is_said_and_printed() -> None:
    done = search("{x}", "-p", "x", "1", "-p", "x", "2", "-p", "y", "a", "b", "--n-samples", "7")
    assert (done.returncode, done.stdout) == (0, "2\n2\n")
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()] == [
        "parameter 'x' is given twice; the last one counts",
        "no {y} is in the command, so every line comes 2 times",
        "there are only 2 combinations; --n-samples 7 takes all of them",
    ]


def test_a_stdout_that_cannot_be_written_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        argv = [sys.executable, PROGRAM, "{x}", "-p", "x", "1"]
        done = subprocess.run(argv, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"simple_hypersearch: stdout: No space left on device\n")


@pytest.mark.parametrize("mode", ["grid", "shuffled_grid"])
def test_a_reader_that_goes_ends_it_quietly(mode: str) -> None:
    with start(*MANY, "--sampling-mode", mode) as process:
        assert process.stdout is not None and process.stderr is not None
        assert len(process.stdout.readline()) == 8
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


def test_the_first_line_is_written_by_itself_and_the_others_in_blocks() -> None:
    # This kind of socket keeps apart what was written apart.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, subprocess.Popen([sys.executable, PROGRAM, *MANY], env=ENVIRONMENT, stdout=theirs.fileno()) as process:
        theirs.close()
        assert len(ours.recv(1 << 20)) == 8
        assert len(ours.recv(1 << 20)) == 8 * BLOCK_LINES
        process.kill()


def test_long_lines_come_in_smaller_blocks() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = ("{a}" + "x" * 30_000, "-p", "a", *map(str, range(100)))
    with ours, subprocess.Popen([sys.executable, PROGRAM, *words], env=ENVIRONMENT, stdout=theirs.fileno()) as process:
        theirs.close()
        sizes = list(iter(lambda: len(ours.recv(1 << 20)), 0))
        assert process.wait(30) == 0
    assert sum(sizes) > 3_000_000 and max(sizes) < BLOCK_BYTES + 2 * 30_010


def test_a_reader_that_does_not_wait_loses_nothing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    words = ("{a}" * 500, "-p", "a", *map(str, range(1000)), "--sampling-mode", "grid")
    with subprocess.Popen([sys.executable, PROGRAM, *words], env=ENVIRONMENT, stdout=writing) as process:
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as incoming:
            assert incoming.read().splitlines() == [str(number) * 500 for number in range(1000)]
        assert process.wait(30) == 0


@pytest.mark.parametrize("mode", ["grid", "shuffled_grid"])
def test_ten_million_points_stream_in_constant_memory(mode: str) -> None:
    with start(*MANY, "--sampling-mode", mode) as process:
        assert process.stdout is not None
        some = [process.stdout.readline() for _ in range(5_000)]
        before = resident_kib(process.pid)
        some += [process.stdout.readline() for _ in range(200_000)]
        assert resident_kib(process.pid) - before < 1024
        assert len(set(some)) == len(some)
        process.kill()


def test_nothing_heavy_is_loaded() -> None:
    argv = [sys.executable, "-X", "importtime", PROGRAM, "{x}", "-p", "x", "1", "2"]
    done = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, text=True, timeout=60, check=False
    )
    loaded = imported(done.stderr) - imported(bare.stderr)
    assert "grassq.core.syntax.sweep" in loaded
    assert not loaded & HEAVY
    assert sorted(name for name in loaded if not name.startswith("grassq")) == ["__future__", "itertools"]


# Side by side with the program of the same name.


@pytest.mark.original
@pytest.mark.parametrize(
    "words",
    [
        (PATTERN, *PARAMETERS, "--sampling-mode", "grid"),
        (PATTERN, *PARAMETERS, "--sampling-mode", "grid", "--n-samples", "4"),
        (PATTERN, *PARAMETERS, "--sampling-mode", "grid", "--n-samples", "100"),
        (PATTERN, *PARAMETERS, "--sampling-mode", "grid", "--n-samples", "0"),
        (PATTERN, "-p", "lr", "-0.1", "-3", "-p", "bs", "a b", "--sampling-mode", "grid"),
        ("x{{{a}}} {a:>4}", "-p", "a", "1", "2", "--sampling-mode", "grid"),
        ("{a}", "-p", "a", "1", "-p", "b", "3", "4", "-p", "a", "5", "6", "--sampling-mode", "grid"),
        ("--sampling-mode", "grid", "-p", "a", "1", "2", "--", "{a}"),
    ],
)
def test_the_grid_is_printed_as_by_the_original(words: tuple[str, ...]) -> None:
    assert search(*words).stdout == printed_by_original(*words)


@pytest.mark.original
def test_the_readme_lines_are_those_of_the_original() -> None:
    assert Counter(lines(PATTERN, *PARAMETERS)) == Counter(printed_by_original(PATTERN, *PARAMETERS).splitlines())
    sampled = (PATTERN, "--n-samples", "5", *PARAMETERS)
    assert len(lines(*sampled)) == len(printed_by_original(*sampled).splitlines())


def printed_by_original(*words: str) -> str:
    """What the original prints."""
    done = original.run(original.SEARCH, list(words), cwd=ROOT, env=dict(os.environ))
    assert done.code == 0, done.err
    return done.out


@contextlib.contextmanager
def start(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start it, with its stdout to be read."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, PROGRAM, *words], env=ENVIRONMENT, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def resident_kib(pid: int) -> int:
    """How much memory a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def imported(report: str) -> set[str]:
    """The modules of a `-X importtime` report."""
    return {line.rpartition("|")[2].strip() for line in report.splitlines() if line.startswith("import time:")}
