"""Why a job probably failed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.diagnosis.cause import QUOTED_CHARS, guess

TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 3, in <module>', "    main()"]


@pytest.mark.parametrize(
    ("last", "kind", "said"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out_of_memory", "GPU memory"),
        ("RuntimeError: CUDA out of memory. Tried to", "out_of_memory", "GPU memory"),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", "out_of_memory", "GPU memory"),
        ("MemoryError", "out_of_memory", "out of memory"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable", "out_of_memory", "out of memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out_of_memory", "out of memory"),
        ("ModuleNotFoundError: No module named 'torch.nn'", "import", "No module named torch.nn"),
        ("ImportError: cannot import name 'x' from 'y'", "import", "cannot import name"),
        ("./a: error while loading shared libraries: libcudart.so.12: cannot open", "import", "libcudart.so.12"),
        ("OSError: [Errno 28] No space left on device", "no_space", "no space left"),
        ("RuntimeError: NCCL error in: ../torch/csrc", "nccl", "NCCL"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda", "CUDA"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'", "file_not_found", "data/x.csv"),
        ("cat: nothing.txt: No such file or directory", "file_not_found", "nothing.txt"),
        ("python: can't open file '/tmp/x.py': [Errno 2] No such file or directory", "file_not_found", "/tmp/x.py"),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", "permission", "/data/x"),
        ("bash: line 1: frobnicate: command not found", "command_not_found", "frobnicate"),
        ("sh: 1: frobnicate: not found", "command_not_found", "frobnicate"),
        ("requests.exceptions.ReadTimeout: read timed out", "timed_out", "timed out"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "connection", "ConnectionRefusedError"),
        ("AssertionError: shapes differ", "assertion", "shapes differ"),
        ("train.py: error: unrecognized arguments: --lrr", "usage", "--lrr"),
        ("TypeError: unsupported operand", "exception", "python exception TypeError: unsupported operand"),
        ("my.package.StrangeError", "exception", "python exception StrangeError"),
        ("thread 'main' panicked at src/main.rs:3:5:", "panic", "src/main.rs:3:5"),
    ],
)
def test_the_last_lines_say_it(last: str, kind: str, said: str) -> None:
    found = guess("exited", None, 1, [*TRACEBACK, last])
    assert found is not None and found.kind == kind and said in found.text


def test_what_is_said_after_the_cause_does_not_hide_it() -> None:
    found = guess("exited", None, 1, ["RuntimeError: CUDA out of memory.", "ChildFailedError: train.py FAILED", ""])
    assert found is not None and found.kind == "out_of_memory"
    # But a word in an old line does not hide the exception that ended the job.
    found = guess("exited", None, 1, ["cat: x: No such file or directory", *TRACEBACK, "TypeError: no"])
    assert found is not None and found.kind == "exception"


@pytest.mark.parametrize(
    ("signal", "code", "said"),
    [
        (9, None, "killed by signal 9, perhaps out of memory"),
        (None, 137, "killed by signal 9, perhaps out of memory"),
        (11, None, "segmentation fault (signal 11)"),
        (None, 139, "segmentation fault (signal 11)"),
        (15, None, "ended by signal 15 from outside of Grass"),
        (40, None, "ended by signal 40"),
        (None, 127, "probably command not found (127)"),
        (None, 124, "probably timed out (124)"),
        (None, 3, None),
        (None, 0, None),
        (None, None, None),
    ],
)
def test_without_a_word_the_end_itself_is_all_that_is_known(signal: int | None, code: int | None, said: str) -> None:
    found = guess("signalled" if signal else "exited", signal, code, ["step 3/10"])
    assert (found and found.text) == said


@pytest.mark.parametrize("outcome", ["lost", "unknown", "cancelled"])
def test_nothing_is_guessed_about_a_job_that_did_not_end_by_itself(outcome: str) -> None:
    assert guess(outcome, None, None, ["MemoryError"]) is None


def test_a_job_that_could_not_start_has_the_cause_of_its_error() -> None:
    found = guess("spawn_failed", None, None, ["MemoryError"], "/x/y: No such file or directory")
    assert found is not None and found.kind == "file_not_found"
    assert guess("spawn_failed", None, None, [], None) is None


@given(
    st.lists(st.text(max_size=300), max_size=20), st.integers(-5, 300), st.sampled_from(["exited", "signalled", None])
)
def test_any_text_is_read_and_the_answer_is_short_and_printable(lines: list[str], code: int, outcome: str) -> None:
    found = guess(outcome, None, code, [*lines, "ImportError: " + "".join(lines)])
    assert found is None or (found.text.isprintable() and len(found.text) < QUOTED_CHARS + 60)


@pytest.mark.parametrize("piece", ["a", ": ", "'", "Error: ", "/", "a.", "A.", "No module named "])
def test_a_line_of_a_megabyte_takes_no_time(piece: str) -> None:
    guess("exited", None, 1, [piece * (1_000_000 // len(piece))] * 50)
