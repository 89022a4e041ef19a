"""A stream of a command: every wait ends by its deadline, and nothing that the far side sends is unbounded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grassq.machines.transport import CHUNK, WORDS_MAX, LinkLost, LocalTransport, Stream

#: A deadline that a test waits for, and one that no test reaches.
SOON_S = 0.2
LONG_S = 60.0


@contextmanager
def command(script: str) -> Iterator[Stream]:
    """Run a shell script as the far side."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    stream = Stream(process)
    try:
        yield stream
    finally:
        stream.close()


@contextmanager
def python(script: str) -> Iterator[Stream]:
    """Run a Python script as the far side."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    stream = Stream(process)
    try:
        yield stream
    finally:
        stream.close()


def test_lines_bytes_and_the_rest_come_in_order() -> None:
    with command("printf 'one\\ntwo\\nabcdef'; cat") as stream:
        assert stream.read_line(100, LONG_S) == b"one"
        assert stream.read_line(3, LONG_S) == b"two"
        assert stream.read_exactly(4, LONG_S) == b"abcd"
        stream.write(b"gh\n", LONG_S)
        stream.end_input()
        rest = b""
        while data := stream.read_some(100, LONG_S):
            rest += data
        assert rest == b"efgh\n"
        assert stream.finish(LONG_S) == 0


@pytest.mark.parametrize("read", ["read_some", "read_exactly", "read_line"])
def test_a_far_side_that_says_nothing_is_given_up_at_the_deadline(read: str) -> None:
    with command("sleep 600") as stream, pytest.raises(LinkLost, match="does not answer"):
        getattr(stream, read)(10, SOON_S)


def test_a_far_side_that_says_nothing_runs_no_command() -> None:
    with command("sleep 600") as stream, pytest.raises(LinkLost, match="does not answer"):
        stream.skip_to(b"marker", 1000, SOON_S)


def test_bytes_that_drip_do_not_put_off_the_deadline() -> None:
    with command("while :; do printf x; sleep 0.02; done") as stream, pytest.raises(LinkLost, match="does not answer"):
        stream.read_line(1000, SOON_S)


def test_an_end_in_the_middle_of_an_answer_is_a_lost_link_with_the_words_of_stderr() -> None:
    with (
        command("printf 'half a li'; echo 'no space left' >&2") as stream,
        pytest.raises(LinkLost, match="in the middle of an answer: no space left"),
    ):
        stream.read_line(100, LONG_S)
    with command("printf 123") as stream, pytest.raises(LinkLost, match="in the middle"):
        stream.read_exactly(4, LONG_S)


def test_the_words_of_a_lost_link_are_the_whole_message() -> None:
    with command("exit 3") as stream:
        with pytest.raises(LinkLost) as lost:
            stream.read_line(100, LONG_S)
        assert str(lost.value) == lost.value.strerror == "the connection ended in the middle of an answer"


@pytest.mark.parametrize("script", ["head -c 1000000 /dev/zero; sleep 600", "yes | tr -d '\\n'", "printf 12345678901"])
def test_a_line_that_is_too_long_is_refused_before_its_end(script: str) -> None:
    with command(script) as stream, pytest.raises(LinkLost, match="longer than 10 bytes"):
        stream.read_line(10, LONG_S)


def test_a_far_side_that_does_not_read_is_given_up_at_the_deadline() -> None:
    with command("sleep 600") as stream, pytest.raises(LinkLost, match="does not answer"):
        stream.write(bytes(10 << 20), SOON_S)


def test_a_write_to_a_far_side_that_has_ended_is_a_lost_link() -> None:
    with command("echo gone >&2; exit 1") as stream:
        assert stream.read_some(10, LONG_S) == b""
        with pytest.raises(LinkLost, match="has ended: gone"):
            stream.write(bytes(1 << 20), LONG_S)


def test_a_command_that_ends_before_it_reads_its_input_says_why_in_its_output() -> None:
    for script in ("echo not available; exit 1", "sleep 0.05; echo not available; exit 1", "cat; echo not available"):
        with command(script) as stream:
            stream.send_input(bytes(1 << 20) if "cat" not in script else b"", LONG_S)
            assert stream.read_line(100, LONG_S) == b"not available"


def test_a_command_that_never_reads_its_input_is_given_up_at_the_deadline() -> None:
    with command("sleep 600") as stream, pytest.raises(LinkLost, match="does not answer"):
        stream.send_input(bytes(1 << 20), SOON_S)


def test_a_write_after_the_end_of_input_or_a_close_is_a_lost_link() -> None:
    with command("cat") as stream:
        stream.end_input()
        with pytest.raises(LinkLost):
            stream.write(b"x", LONG_S)
        stream.close()
        with pytest.raises(LinkLost):
            stream.write(b"x", LONG_S)
        with pytest.raises(LinkLost):
            stream.read_some(1, LONG_S)
        with pytest.raises(LinkLost):
            stream.finish(LONG_S)


def test_more_than_a_pipe_holds_goes_through_both_ways() -> None:
    data = os.urandom(3 * CHUNK + 7)
    with command(f"head -c {len(data)} >there; cat there; rm there") as stream:
        stream.write(data, LONG_S)
        assert stream.read_exactly(len(data), LONG_S) == data


def test_noise_before_the_marker_is_dropped_also_without_a_newline_before_it() -> None:
    with command("echo welcome; echo 'xmarker'; echo 'marker '; printf 'noise\\nmarker\\nanswer\\n'") as stream:
        stream.skip_to(b"marker", 1000, LONG_S)
        assert stream.read_line(100, LONG_S) == b"answer"


def test_a_marker_is_found_as_the_first_line_and_again_later() -> None:
    with command("printf 'marker\\none\\nnoise\\nmarker\\ntwo\\n'") as stream:
        for answer in (b"one", b"two"):
            stream.skip_to(b"marker", 1000, LONG_S)
            assert stream.read_line(100, LONG_S) == answer


def test_a_marker_that_comes_in_pieces_is_found() -> None:
    script = "import os, time\nfor byte in b'noise\\nmarker\\nanswer\\n': os.write(1, bytes([byte])); time.sleep(0.005)"
    with python(script) as stream:
        stream.skip_to(b"marker", 1000, LONG_S)
        assert stream.read_line(100, LONG_S) == b"answer"


def test_endless_noise_without_a_newline_is_given_up_at_the_bound() -> None:
    with command("yes | tr -d '\\n'") as stream, pytest.raises(LinkLost, match="did not run the command"):
        stream.skip_to(b"marker", 1 << 20, LONG_S)
    with command("head -c 100000 /dev/zero | tr '\\0' x; printf '\\nmarker\\n'; echo answer") as stream:
        stream.skip_to(b"marker", 1 << 20, LONG_S)
        assert stream.read_line(100, LONG_S) == b"answer"


def test_a_shell_that_ends_before_the_marker_did_not_run_the_command() -> None:
    with (
        command("echo This account is currently not available. >&2; exit 1") as stream,
        pytest.raises(LinkLost, match="did not run the command: This account is currently not available"),
    ):
        stream.skip_to(b"marker", 1000, LONG_S)


def test_a_flood_of_stderr_holds_up_no_answer_and_only_its_end_is_kept() -> None:
    with command("yes flood | head -c 5000000 >&2; echo answer; printf 'the last words' >&2") as stream:
        assert stream.read_line(100, LONG_S) == b"answer"
        assert stream.finish(LONG_S) == 0
        assert stream.words.endswith("the last words")
        assert len(stream.words) <= WORDS_MAX


def test_an_endless_flood_of_stderr_ends_at_the_deadline() -> None:
    with command("yes flood >&2") as stream:
        with pytest.raises(LinkLost, match="does not answer"):
            stream.read_line(100, SOON_S)
        assert "flood" in stream.words


def test_an_endless_flood_of_stdout_does_not_keep_a_command_from_being_finished() -> None:
    with command("yes") as stream, pytest.raises(LinkLost):
        stream.finish(SOON_S)


def test_control_characters_of_stderr_do_not_reach_a_message() -> None:
    with command("printf '\\033[2Jred\\007\\r\\n\\302\\233x\\n' >&2") as stream:
        assert stream.finish(LONG_S) == 0
        assert stream.words.isprintable()
        assert "red" in stream.words


def test_control_characters_of_a_login_shell_do_not_reach_a_message() -> None:
    with command("printf '\\033[2Jevil\\n\\302\\233line'; head -c 9000 /dev/zero | tr '\\0' x; exit 1") as stream:
        with pytest.raises(LinkLost, match="did not run the command: ") as lost:
            stream.skip_to(b"marker", 100_000, LONG_S)
        assert str(lost.value).isprintable() and len(str(lost.value)) < 2 * WORDS_MAX
    with command("printf '\\033[2Jevil\\nline'") as stream:
        with pytest.raises(LinkLost, match=r"\[2Jevil; line$") as lost:
            stream.skip_to(b"marker", 1000, LONG_S)
        assert str(lost.value).isprintable()


def test_a_command_that_does_not_end_is_not_waited_for_for_ever() -> None:
    with command("exec >&-; sleep 600") as stream, pytest.raises(LinkLost, match="does not end"):
        stream.finish(SOON_S)


def test_a_close_ends_a_command_that_ignores_every_request() -> None:
    pipe = subprocess.PIPE
    script = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    stream = Stream(process)
    assert stream.read_line(100, LONG_S) == b"ready"
    stream.close()
    stream.close()
    assert process.returncode == -9
    assert stream.is_closed


def test_a_close_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with command("cat") as stream:
            stream.write(b"x\n", LONG_S)
            assert stream.read_line(10, LONG_S) == b"x"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_command_that_a_shell_could_read_in_another_way_is_not_started(tmp_path: Path) -> None:
    transport = LocalTransport(str(tmp_path))
    for words in ("", "echo $HOME", "a;b", "a\nb", "echo 'x'", "a|b", "~", "echo *"):
        with pytest.raises(ValueError, match="other characters"):
            transport.open(words)


def test_a_local_command_runs_in_a_home_of_its_own(tmp_path: Path) -> None:
    stream = LocalTransport(str(tmp_path)).open("pwd")
    assert stream.read_line(1000, LONG_S) == str(tmp_path).encode()
    assert stream.finish(LONG_S) == 0
    stream.close()


def test_the_clock_that_is_passed_in_decides() -> None:
    pipe = subprocess.PIPE
    times = iter([0.0, 100.0])
    process = subprocess.Popen(["sleep", "600"], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    stream = Stream(process, clock=lambda: next(times))
    began = time.monotonic()
    with pytest.raises(LinkLost, match="does not answer"):
        stream.read_some(1, 99.0)
    assert time.monotonic() - began < LONG_S
    stream.close()
