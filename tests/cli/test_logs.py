"""Logs: following through a daemon's death, and what a terminal is shown."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyte
import pyte.modes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, stream

from grassq.cli.logs.live_view import LineView, LiveView
from grassq.cli.logs.pager import PAGER, pager_words
from grassq.core.term.screen import fold
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


def test_raw_bytes_of_many_jobs_are_exit_2(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": [{"id": 1}, {"id": 2}]})):
        done = grass("log", "--raw", "all")
    assert (done.returncode, done.stderr) == (2, "grass: --raw takes one job\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tail", "-1"], "--tail takes a count of lines"),
        (["--head", "-1"], "--head takes a count of lines"),
        (["--lines", "x"], "--lines takes a range"),
        (["--lines", "-"], "--lines takes a range"),
        (["--lines", "0-4"], "lines count from 1"),
        (["--lines", "9-4"], "lines count from 1"),
        (["--grep", ""], "--grep takes a regular expression"),
        (["--since", "soon"], "--since needs a number and its unit"),
        (["--since", "25:61"], "there is no such time"),
        (["--since", "2026-99-01"], "write a time as"),
        (["--head", "1", "--grep", "x"], "take one of them"),
        (["--raw", "--head", "1"], "--raw prints bytes"),
        (["-f", "--head", "1"], "-f goes on to the end"),
        (["-f", "--json"], "-f goes on to the end"),
    ],
)
def test_bad_choices_of_lines_are_one_line_and_exit_2(grass: Grass, words: list[str], message: str) -> None:
    done = grass("log", "5", *words)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["log", "follow"])
def test_the_help_names_selectors_that_exist(grass: Grass, name: str) -> None:
    said = grass(name, "--help").stdout
    assert "`last`" not in said and "`@`" in said


def test_the_help_says_which_exit_code_means_that_no_line_matches(grass: Grass) -> None:
    assert "exit code 1 if no line matches" in " ".join(grass("log", "--help").stdout.split())


def line(number: int, *spans: tuple[str, str]) -> dict[str, object]:
    return {"n": number, "begin": 0, "end": 1, "spans": spans}


class Lines:
    """A daemon with a log of lines."""

    def __init__(self, *lines: dict[str, object]) -> None:
        self.lines = lines

    def __call__(self, request: Request) -> Answer:
        address = urlsplit(request.target)
        if not address.path.endswith("/lines"):
            return document({"jobs": [{"id": 5, "state": "succeeded", "attempt": 1}]})
        first = int(parse_qs(address.query)["line"][0])
        found = self.lines[first if first < 0 else first - 1 :]
        return document({"lines": found, "is_whole": True, "total": len(self.lines)})


RED = Lines(line(1, ("bold fg1", "red"), ("", " plain")), line(2, ("", "two")), line(3, ("", "three")))


def test_chosen_lines_are_plain_text_in_a_pipe(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, RED):
        assert grass("log", "5", "--head", "1").stdout.splitlines()[0] == "red plain"
        assert grass("log", "5", "--tail", "2").stdout == "two\nthree\n"
        assert grass("log", "5", "--lines", "2-", "--numbers").stdout == "2:two\n3:three\n"


def test_a_job_that_ended_before_a_time_has_no_line_since_then(home: Path, grass: Grass) -> None:
    times = {"started": "2026-01-02T03:04:05.678Z", "finished": "2026-01-02T03:04:15.678Z"}
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append(request.target)
        if "/lines" in request.target:
            return document({"lines": [line(1, ("", "old"))], "is_whole": True, "total": 1})
        return document({"jobs": [{"id": 5, "state": "succeeded", "attempt": 1, **times}]})

    with FakeDaemon(home, answer):
        done = grass("log", "5", "--since", "10m")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert len(asked) == 1, "the log is not read"


class TwoJobs:
    """A daemon with two jobs. The second cannot start: this is known from one look on; from another on it has ended."""

    def __init__(self, blocked_at: int, ends_at: float = math.inf) -> None:
        self.blocked_at, self.ends_at, self.looks = blocked_at, ends_at, 0

    def __call__(self, request: Request) -> Answer:
        address = urlsplit(request.target)
        if address.path != "/v1/jobs":
            return stream(b"", Grass_Attempt=1)
        self.looks += 1
        second: dict[str, object] = {"id": 2, "state": "cancelled" if self.looks >= self.ends_at else "queued"}
        if self.blocked_at <= self.looks < self.ends_at:
            second["cannot_start"] = "everything is paused"
        jobs = {"1": {"id": 1, "state": "succeeded", "attempt": 1}, "2": second}
        [asked] = parse_qs(address.query)["selector"]
        return document({"jobs": [jobs[asked]] if asked in jobs else [*jobs.values()]})


def test_raw_bytes_of_several_jobs_cannot_be_followed(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, TwoJobs(1)):
        done = grass("follow", "--raw", "1-2")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "grass: --raw takes one job\n")


@pytest.mark.parametrize("look", [1, 2])
def test_strict_ends_the_following_of_several_jobs_if_one_cannot_start(home: Path, grass: Grass, look: int) -> None:
    with FakeDaemon(home, TwoJobs(look)):
        done = grass("follow", "--strict", "1-2")
    assert done.returncode == 5 and "Traceback" not in done.stderr
    assert done.stderr == "grass: job 2 cannot start: everything is paused (the job is not removed)\n"


@pytest.mark.parametrize(("words", "said"), [([], "grass: job 2 cannot start: everything is paused\n"), (["-q"], "")])
def test_a_job_among_several_that_cannot_start_is_named_unless_quiet(
    home: Path, grass: Grass, words: list[str], said: str
) -> None:
    with FakeDaemon(home, TwoJobs(1, ends_at=3)):
        done = grass("follow", *words, "1-2")
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, PAGER.split()),
        ({"PAGER": "more -x 'a b'"}, ["more", "-x", "a b"]),
        ({"PAGER": "more", "GRASS_PAGER": "most"}, ["most"]),
        ({"PAGER": "more", "GRASS_PAGER": ""}, []),
        ({"PAGER": "cat"}, []),
        ({"PAGER": "less '"}, []),
    ],
)
def test_the_pager_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], words: list[str]
) -> None:
    for name in ("PAGER", "GRASS_PAGER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert pager_words() == words


def test_lines_that_a_broker_makes_up_do_not_control_the_terminal(home: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b2Jx\r\ny"
    with FakeDaemon(home, Lines(line(1, ("bold", evil), ("", evil)))):
        drawn = on_terminal(home, "log", "5", "--tail", "1", PAGER="cat")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", re.sub("\x1b\\[[0-9;]*m", "", drawn))
    assert "\\u202e" in drawn and drawn.count("\n") == 1


def on_terminal(home: Path, *words: str, **environ: str) -> str:
    return calls.on_terminal(home, calls.ROOT / "bin" / "grass", *words, **environ).decode().replace("\r\n", "\n")


def test_a_pager_is_used_for_what_is_longer_than_the_screen_only(home: Path) -> None:
    pager = f"{sys.executable} -c 'import sys; print(len(sys.stdin.readlines()))'"
    with FakeDaemon(home, Lines(*[line(at, ("", f"line {at}")) for at in range(1, 101)])):
        assert on_terminal(home, "log", "5", "--tail", "100", PAGER=pager) == "100\n"
        assert on_terminal(home, "log", "5", "--tail", "100", PAGER="cat", GRASS_PAGER=pager) == "100\n"
        assert on_terminal(home, "log", "5", "--tail", "2", PAGER=pager) == "line 99\nline 100\n"
        unpaged = [(["--no-pager"], pager), ([], "cat"), ([], "no-such-pager")]
        for words, name in unpaged:
            assert on_terminal(home, "log", "5", "--tail", "100", *words, PAGER=name).count("\n") == 100


def test_a_whole_log_is_folded_on_a_terminal(home: Path) -> None:
    log = b"begin\n" + b"".join(b"\r%d%%" % at for at in range(101)) + b"\nend\n"
    with FakeDaemon(home, Story(log, step=len(log) + 1)):
        assert on_terminal(home, "log", "5", PAGER="cat") == "begin\n100%\nend\n"
        assert on_terminal(home, "log", "--raw", "5", PAGER="cat").count("%") == 101


PARTS = st.lists(
    st.sampled_from(
        [
            b"\n",
            b"text",
            b"\r",
            b"\x1b[A",
            b"\x1b[2A",
            b"\x1b[K",
            b"\x1b[31mred\x1b[0m",
            b"long " * 30,
            b"\x1b[B",
            b"\x1b[J",
        ]
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(PARTS, st.integers(1, 5))
def test_a_log_that_is_drawn_live_ends_as_what_it_shows(parts: list[bytes], size: int) -> None:
    """Whatever came in which pieces; on a terminal with room for all lines."""
    terminal = pyte.Screen(60, 200)
    terminal.set_mode(pyte.modes.LNM)
    stream = pyte.ByteStream(terminal)
    view = LiveView(stream.feed, lambda: (60, 200), coloured=True)
    for at in range(0, len(parts), size):
        view.feed(b"".join(parts[at : at + size]) or b"\0")
    view.feed(b"")
    drawn = [row.rstrip() for row in terminal.display]
    expected = []
    for each in fold(b"".join(parts)):
        text = each.text
        expected += [text[at : at + 60].rstrip() for at in range(0, max(1, len(text)), 60)]
    while drawn and not drawn[-1]:
        drawn.pop()
    while expected and not expected[-1]:
        expected.pop()
    assert drawn == expected


def shown(*parts: bytes) -> bytes:
    lines: list[str] = []
    view = LineView(lines.append, coloured=True)
    for part in [part for part in parts if part]:
        view.feed(part)
    view.feed(b"")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"plain\ttext\r\n", b"plain\ttext"),
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b"a\x1b[2Jb\x1b[2;3Hc", b"a\nb\n  c"),
        (b"a\x1b]0;title\x07b", b"ab"),
        (b"a\x1b]52;c;aGk=\x1b\\b", b"ab"),
        (b"a\x1bP1$r\x1b\\b", b"ab"),
        (b"a\x1bcb\x1b7c", b"a\nbc"),
        (b"a\x07\x08\x00b", b"b"),
        ("a\x9b2Kb".encode(), b" b"),
        (b"a\x9b2Jb", "a\ufffd2Jb".encode()),
        ("naïve 🌱".encode(), "naïve 🌱".encode()),
        (b"a\x1b]never ends\nb", b"a\nb"),
        (b"\x1b[31mred\x1b[8mvisible", b"\x1b[31mredvisible\x1b[0m"),
        (b"a\x1b\x00[8mb", b"a[8mb"),
        (b"\x1b[31mred\x1b[m", b"\x1b[31mred\x1b[0m"),
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
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)
