"""Logs: following through a daemon's death, and what a terminal is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, stream

from grassq.cli.ansi_filter import AnsiFilter
from grassq.net.client import ApiClient

Grass = Callable[..., calls.Done]


class Story:
    """A job with a log, served by a daemon that dies after every few bytes."""

    def __init__(self, log: bytes, *, step: int, final: str = "succeeded") -> None:
        self.log, self.step, self.final, self.seen = log, step, final, 0

    def __call__(self, request: Request) -> Answer:
        address = urlsplit(request.target)
        if address.path == "/v1/jobs":
            state = self.final if self.seen >= len(self.log) else "running"
            return document({"jobs": [{"id": 5, "state": state, "attempt": 1, "exit_code": 0}]})
        asked = parse_qs(address.query)
        offset = max(0, len(self.log) - 6) if "tail" in asked else int(asked["offset"][0])
        self.seen = max(self.seen, min(len(self.log), offset + self.step))
        whole = offset + self.step > len(self.log)
        return stream(self.log[offset : offset + self.step], whole=whole, Grass_Attempt=1, Grass_Offset=offset)


@pytest.mark.parametrize(("final", "code"), [("succeeded", 0), ("failed", 1)])
def test_following_goes_on_where_it_was_when_a_daemon_died(home: Path, grass: Grass, final: str, code: int) -> None:
    story = Story(b"abcdefghij\n", step=6, final=final)
    with FakeDaemon(home, story):
        done = grass("follow", "5")
    assert (done.stdout, done.returncode) == ("abcdefghij\n", code)


@pytest.mark.parametrize(("words", "written"), [([], "abcdefghij\n"), (["--raw", "--tail", "1"], "fghij\n")])
def test_a_log_cut_short_by_a_dying_daemon_is_read_on(home: Path, grass: Grass, words: list[str], written: str) -> None:
    with FakeDaemon(home, Story(b"abcdefghij\n", step=2)):
        done = grass("log", *words, "5")
    assert (done.stdout, done.stderr, done.returncode) == (written, "", 0)


@pytest.mark.parametrize("verb", ["log", "follow"])
def test_a_log_that_cannot_be_read_to_its_end_is_exit_4(home: Path, grass: Grass, verb: str) -> None:
    job = {"id": 5, "state": "succeeded", "attempt": 1}

    def answer(request: Request) -> Answer:
        if request.target.startswith("/v1/jobs?"):
            return document({"jobs": [job]})
        return stream(b"" if "offset=3" in request.target else b"abc", whole=False, Grass_Attempt=1)

    with FakeDaemon(home, answer):
        done = grass(verb, "5")
    assert (done.stdout, done.returncode) == ("abc", 4)
    assert done.stderr.startswith("grass: the daemon closed the connection") and done.stderr.count("\n") == 1


def test_after_a_log_that_shrank_reading_goes_on_at_the_new_place(home: Path) -> None:
    """The daemon says so in a header; what a reader sees of it is no part of the log."""
    mark = b"\n[grass: the log shrank at 3 bytes]\n"
    answers = [
        stream(b"ab\n", whole=False, Grass_Attempt=1),
        stream(b"c", whole=False, Grass_Attempt=1, Grass_Offset=0, Grass_Shrank=3),
        stream(b"de", Grass_Attempt=1, Grass_Offset=1),
    ]
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append(request.target)
        return answers[len(asked) - 1]

    with FakeDaemon(home, answer), ApiClient(str(home)) as client:
        assert b"".join(client.log(5)) == b"ab\n" + mark + b"cde"
    offsets = [dict(parse_qs(urlsplit(target).query))["offset"] for target in asked]
    assert offsets == [["0"], ["3"], ["1"]]


def test_a_pipe_gets_the_bytes_as_they_are(home: Path) -> None:
    import subprocess
    import sys

    log = bytes(range(256)) * 300
    with FakeDaemon(home, Story(log, step=len(log))):
        done = subprocess.run(
            [sys.executable, str(calls.ROOT / "bin" / "grass"), "log", "5"],
            env=calls.environment(home), capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.stdout == log


def test_log_of_many_jobs_is_exit_2(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": [{"id": 1}, {"id": 2}]})):
        done = grass("log", "all")
    assert (done.returncode, done.stderr) == (2, "grass: 'all' names 2 jobs; name one\n")


def shown(*parts: bytes) -> bytes:
    screen = AnsiFilter()
    return b"".join([screen.feed(part) for part in parts] + [screen.feed(b"", last=True)])


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"plain\ttext\r\n", b"plain\ttext\r\n"),
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b"a\x1b[2Jb\x1b[10;10Hc", b"abc"),
        (b"a\x1b]0;title\x07b", b"ab"),
        (b"a\x1b]52;c;aGk=\x1b\\b", b"ab"),
        (b"a\x1bP1$r\x1b\\b", b"ab"),
        (b"a\x1bcb\x1b7c", b"abc"),
        (b"a\x07\x08\x00b", b"ab"),
        ("a\x9b2Jb".encode(), b"ab"),
        (b"a\x9b2Jb", "a\ufffd2Jb".encode()),
        ("naïve 🌱".encode(), "naïve 🌱".encode()),
        (b"a\x1b]never ends\nb", b"a\nb"),
        (b"\x1b[31mred\x1b[8m", b"\x1b[31mred\x1b[8m\x1b[0m"),
        (b"a\x1b\x00[8mb", b"a[8mb"),
        (b"\x1b[31mred\x1b[m", b"\x1b[31mred\x1b[m"),
        ("a\u202eb\u2066c".encode(), b"a\\u202eb\\u2066c"),
    ],
)
def test_a_terminal_sees_colours_and_text_only(written: bytes, seen: bytes) -> None:
    assert shown(written) == seen
    assert shown(*[written[at : at + 1] for at in range(len(written))]) == seen


@given(st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b"\x1b", b"[", b"]", b"\x1b\x1b[", b"m", b"\xc2"]))))
def test_no_escape_but_a_colour_ever_reaches_a_terminal(parts: list[bytes]) -> None:
    text = shown(*parts).decode()
    rest = re.sub(r"\x1b\[[0-9;:]*m", "", text)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)
