"""The options of `grass show`: columns, order, time, trees, lines of JSON, and drawing again and again."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli import calls
from tests.cli.fake import FakeDaemon, Request, document, stream
from tests.cli.test_show import ANSWER, a_job, streamed

JOBS = [
    a_job(id=1, state="succeeded", name="b", started="2026-01-02T03:04:05.678Z", finished="2026-01-02T03:04:15.678Z"),
    a_job(id=2, state="failed", name="a", exit_code=1, started="2026-01-02T03:04:05.678Z", cause="probably x"),
    a_job(id=3, state="running", name="c", started="2026-01-02T03:04:05.678Z", progress={"fraction": 0.5}),
]


def shown(home: Path, *words: str, jobs: list[dict[str, Any]] | None = None) -> tuple[calls.Done, list[Request]]:
    answer = {**ANSWER, "jobs": JOBS if jobs is None else jobs, "more": False}
    with FakeDaemon(home, lambda request: document(answer)) as daemon:
        return calls.grass(home, "show", *words), daemon.requests


def test_columns_are_chosen_and_added(home: Path) -> None:
    done, requests = shown(home, "all", "-o", "id,Name,progress")
    assert done.stdout == "ID  NAME  PROGRESS\n1   b\n2   a\n3   c     50%\n"
    assert requests[0].target == "/v1/show?selector=all&look=1"
    done, requests = shown(home, "all", "-o", "+exit,priority")
    header = done.stdout.splitlines()[0].split()
    assert header[:3] == ["ID", "NAME", "QUEUE"] and header[-2:] == ["EXIT_CODE", "PRIORITY"]
    done, requests = shown(home, "all", "-o", "id")
    assert requests[0].target == "/v1/show?selector=all", "nothing in these columns needs a log"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "nmae"), "-o: there is no column 'nmae'; did you mean name? the columns are id, name,"),
        (("-o", ""), "-o needs columns: id, name,"),
        (("--sort", "-tok"), "--sort: there is no column 'tok'; did you mean took?"),
        (("--since", "yesterday"), "--since needs a number and its unit"),
        (("--watch", "1x"), "--watch needs a number and its unit"),
        (("--json", "--json-lines"), "--json, --json-lines and -q exclude each other"),
    ],
)
def test_wrong_words_are_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = calls.grass(home, "show", *words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done


def test_jobs_are_sorted_by_a_column_and_those_without_come_last(home: Path) -> None:
    def ids(*words: str) -> list[str]:
        return [line.split()[0] for line in shown(home, "all", "-o", "id", *words)[0].stdout.splitlines()[1:]]

    assert ids("--sort", "name") == ["2", "1", "3"] and ids("--sort", "-name") == ["3", "1", "2"]
    assert ids("--sort=exit_code") == ["2", "1", "3"]
    assert ids("--sort", "-finished") == ["1", "2", "3"]


def test_since_is_asked_of_the_daemon(home: Path) -> None:
    done, requests = shown(home, "failed", "--since", "2d")
    assert requests[0].target == "/v1/show?selector=failed&within_s=172800"
    assert done.stdout.startswith("ID ")


def test_since_may_be_a_time_of_the_clock_or_a_date(home: Path) -> None:
    yesterday = time.time() - 86_400
    for form, most_s in (("%H:%M", 86_460 + 3_600), ("%Y-%m-%dT%H:%M:%S", 86_400 + 3_600 + 60)):
        _, requests = shown(home, "failed", "--since", time.strftime(form, time.localtime(yesterday)))
        assert 0 <= int(requests[0].target.partition("within_s=")[2]) <= most_s


def test_a_tree_and_a_long_table(home: Path) -> None:
    reruns = [a_job(id=1, state="failed"), a_job(id=2, rerun_of=1, command=["x" * 3000])]
    done, _ = shown(home, "all", "--tree", "-o", "id,state", jobs=reruns)
    assert done.stdout.splitlines() == ["ID    STATE", "1     failed", "└─ 2  queued"]
    wide, _ = shown(home, "all", "-l", jobs=reruns)
    bounded, _ = shown(home, "all", jobs=reruns)
    assert "x" * 3000 in wide.stdout
    assert max(map(len, bounded.stdout.splitlines())) < 300 and "xxx..." in bounded.stdout


def test_lines_of_json_keep_everything(home: Path) -> None:
    done, _ = shown(home, "all", "--json-lines")
    assert [json.loads(line) for line in done.stdout.splitlines()] == JOBS
    many = [a_job(id=number) for number in range(1, 500)]
    with FakeDaemon(home, lambda request: stream(streamed(many))):
        done = calls.grass(home, "show", "all", "--json-lines")
    assert [json.loads(line) for line in done.stdout.splitlines()] == many


def test_a_table_has_an_end_and_says_so(home: Path) -> None:
    many = [a_job(id=number, command=["true"]) for number in range(1, 10_200)]
    with FakeDaemon(home, lambda request: stream(streamed(many))):
        done = calls.grass(home, "show", "all")
        ids = calls.grass(home, "show", "all", "-q")
    assert len(done.stdout.splitlines()) == 10_001 and done.returncode == 0
    assert "only the first 10,000 jobs are printed" in done.stderr
    assert len(ids.stdout.splitlines()) == 10_199


def test_in_a_pipe_failures_and_sweeps_come_below_the_jobs(home: Path) -> None:
    failed = a_job(id=2, state="failed", exit_code=1, cause="probably x", last_line="\x1b[2Jboom")
    sweeps = [{"name": "grid", "jobs": 4, "ended": 1, "counts": {"queued": 3, "failed": 1}}]
    with FakeDaemon(home, lambda request: document({**ANSWER, "jobs": [failed], "sweeps": sweeps})):
        done = calls.grass(home, "show")
    assert "\nFAILED  RESULT  CAUSE       LAST LINE\n2       exit 1  probably x  \\x1b[2Jboom\n" in done.stdout
    assert "\nSWEEP  ENDED  JOBS\ngrid   1/4    3 queued, 1 failed\n" in done.stdout


def test_without_utf8_nothing_but_ascii_is_drawn(home: Path) -> None:
    jobs = [{**JOBS[2], "command": ["x" * 300], "last_line": "é"}, {**JOBS[1], "last_line": "boom"}]
    answer = {**ANSWER, "jobs": jobs, "sweeps": [{"name": "g", "jobs": 4, "ended": 1, "counts": {}}], "more": False}
    with FakeDaemon(home, lambda request: document(answer)):
        screen = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "show", PYTHONIOENCODING="ascii", COLUMNS="80")
        tree = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "show", "--tree", PYTHONIOENCODING="ascii")
    assert screen.isascii() and tree.isascii() and b"####" in screen and b"`-" in screen


def test_on_a_terminal_the_screen_is_asked_for_and_drawn(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({**ANSWER, "jobs": JOBS, "more": False})) as daemon:
        drawn = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "show", NO_COLOR="1", COLUMNS="80").decode()
    assert daemon.requests[0].target == "/v1/show?brief=1&look=1"
    assert drawn.splitlines()[0] == "RUNNING 1" and "probably x" in drawn


class Watching:
    """A `grass show --watch` at a terminal of its own, or in a pipe."""

    def __init__(self, home: Path, *words: str, at_terminal: bool = True) -> None:
        self._ours, theirs = pty.openpty() if at_terminal else os.pipe()
        argv = [sys.executable, str(calls.ROOT / "bin" / "grass"), "show", "--watch", "0.2", *words]
        env = {**calls.environment(home), "COLUMNS": "80", "LINES": "12", "TERM": "xterm", "NO_COLOR": "1"}
        stdin = theirs if at_terminal else subprocess.DEVNULL
        self.process = subprocess.Popen(argv, stdin=stdin, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        self.seen = ""

    def wait_for(self, condition: Callable[[str], bool]) -> None:
        """Read until what was drawn is as it should be."""
        deadline = time.monotonic() + 30
        while not condition(self.seen):
            assert time.monotonic() < deadline, self.seen
            if select.select([self._ours], [], [], 1)[0]:
                self.seen += os.read(self._ours, 1 << 16).decode()

    def end(self, number: signal.Signals) -> int:
        """Send a signal and read to the end; return the exit code."""
        self.process.send_signal(number)
        try:
            while select.select([self._ours], [], [], 30)[0] and (part := os.read(self._ours, 1 << 16)):
                self.seen += part.decode()
        except OSError:
            pass  # the error of Linux when no process has the other end
        os.close(self._ours)
        return self.process.wait(30)


def test_a_watch_survives_a_restart_and_leaves_the_terminal_as_it_was(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({**ANSWER, "jobs": JOBS, "more": False})):
        watching = Watching(home)
        watching.wait_for(lambda seen: seen.count("RUNNING 1") > 1)
    watching.wait_for(lambda seen: "the daemon has not answered since" in seen)
    many = [{**JOBS[2], "id": number} for number in range(7, 40)]
    with FakeDaemon(home, lambda request: document({**ANSWER, "jobs": many, "totals": {"running": 33}})):
        watching.wait_for(lambda seen: "RUNNING 33" in seen)
        assert watching.end(signal.SIGINT) == 130
    assert "28 more; `grass show running`" in watching.seen, "the screen fits its height"
    before, _, after = watching.seen.rpartition("\x1b[?25h\x1b[?1049l")
    assert before.startswith("\x1b[?1049h") and "RUNNING 33" in after and "\x1b[?1049h" not in after


def test_a_watched_table_has_an_end_and_goes_on_when_nothing_is_left(home: Path) -> None:
    answers = [document({**ANSWER, "jobs": [{**JOBS[2], "id": number} for number in range(7, 40)]})]
    gone = document({"error": {"exit": 3, "message": "no job matches running"}}, status=404)
    with FakeDaemon(home, lambda request: answers.pop() if answers else gone):
        watching = Watching(home, "running")
        watching.wait_for(lambda seen: "… 24 more lines" in seen and "grass: no job matches running" in seen)
        assert watching.end(signal.SIGINT) == 130
        assert calls.grass(home, "show", "--watch", "running").returncode == 3, "what never was is an error"


def test_a_watch_that_is_killed_leaves_the_terminal_as_it_was(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({**ANSWER, "jobs": JOBS, "more": False})):
        watching = Watching(home)
        watching.wait_for(lambda seen: "RUNNING 1" in seen)
        assert watching.end(signal.SIGTERM) == 143
    assert "\x1b[?1049l" in watching.seen


def test_a_watch_in_a_pipe_prints_snapshots_with_their_times(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({**ANSWER, "jobs": JOBS, "more": False})):
        watching = Watching(home, "all", at_terminal=False)
        watching.wait_for(lambda seen: seen.count("\n# 20") > 1)
        watching.end(signal.SIGINT)
    assert "\x1b" not in watching.seen and watching.seen.count("ID  NAME") > 1
