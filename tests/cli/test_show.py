"""`grass show` is light, and its tables fit."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli import calls
from tests.cli.fake import FakeDaemon, document, reply, stream

from grassq.cli import job_text, render
from grassq.cli.main import main
from grassq.compat.slurm import job_view
from grassq.core.names import STATES
from grassq.net import encoding

HEAVY = "re json argparse socket typing enum subprocess pathlib logging collections functools datetime shlex rich"


def a_job(**more: Any) -> dict[str, Any]:
    fixed = {"id": 1, "queue": "default", "state": "queued", "command": ["ls", "a b"], "request": {"cpu": 1}}
    return {**fixed, "created": "2026-01-02T03:04:05.678Z", **more}


def test_the_help_says_what_each_state_means(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--help"]) == 0
    out = capfd.readouterr().out
    assert all(re.search(rf"^  {state} +\w", out, re.M) for state in (*STATES, "unreachable"))


ANSWER = {
    "schema": 1,
    "jobs": [a_job(), a_job(id=2, state="failed", outcome="exited", exit_code=3, started="2026-01-02T03:04:05.678Z")],
    "queues": [{"name": "default", "worker": "w", "limits": {}, "free": {}, "running": 0, "queued": 1, "prefix": []}],
    "workers": [{"name": "w", "online": True, "labels": [], "capacity": {"cpu": 2}, "free": {"cpu": 2}}],
    "totals": {"queued": 1, "failed": 1},
    "more": True,
}


def test_a_show_loads_nothing_heavy(home: Path) -> None:
    path = f"import sys; sys.path.insert(0, {str(calls.ROOT / 'src')!r})"
    program = "from grassq.cli.fast import main; main(['show']); print(*sys.modules)"
    with FakeDaemon(home, lambda request: document(ANSWER)):
        done = calls.python(home, "-I", "-S", "-c", f"{path}; {program}")
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "ID", done.stderr
    assert not set(lines[-1].split()) & set(HEAVY.split())


@pytest.mark.parametrize("words", [("show",), ("status",), ("info",)])
def test_the_short_way_prints_what_the_long_one_does(home: Path, words: tuple[str, ...]) -> None:
    with FakeDaemon(home, lambda request: document(ANSWER)) as daemon:
        short = calls.grass(home, *words)
        # An option that the short way leaves to the parser.
        long = calls.grass(home, *words, "--broker=local")
    assert (short.stdout, short.stderr, short.returncode) == (long.stdout, long.stderr, long.returncode)
    assert "more jobs" in short.stderr and "1 queued, 1 failed" in short.stdout
    assert {request.target for request in daemon.requests} == {"/v1/show?look=failed"}


def test_selectors_and_json(home: Path) -> None:
    with FakeDaemon(home, lambda request: document(ANSWER)) as daemon:
        done = calls.grass(home, "show", "3-7", "--json", "queue:x")
    assert json.loads(done.stdout) == ANSWER
    assert daemon.requests[0].target == "/v1/show?selector=3-7&selector=queue%3Ax"


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (document({"error": {"exit": 3, "message": "no job matches 9"}}, status=404), 3, "grass: no job matches 9\n"),
        (reply(b"{"), 4, "cannot be read"),
        (reply(b"[1]"), 4, "cannot be read"),
        (reply(b"\xff"), 4, "cannot be read"),
        (reply(b"{} {}"), 4, "cannot be read"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(home: Path, answer: bytes, code: int, said: str) -> None:
    with FakeDaemon(home, lambda request: answer):
        done = calls.grass(home, "show", "9")
    assert done.returncode == code, done
    assert said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_reader_that_has_gone_and_a_full_disk(home: Path) -> None:
    argv = [sys.executable, str(calls.ROOT / "bin" / "grass"), "show"]
    with FakeDaemon(home, lambda request: document(ANSWER)), Path("/dev/full").open("wb") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, env=calls.environment(home), check=False)
        assert (done.returncode, done.stderr) == (1, b"grass: stdout: No space left on device\n")
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, env=calls.environment(home), check=False)
        os.close(writing)
        assert (done.returncode, done.stderr) == (141, b"")


def streamed(jobs: list[dict[str, Any]]) -> bytes:
    """A long answer as the daemon writes it: a job a line."""
    head = json.dumps({name: value for name, value in ANSWER.items() if name != "jobs"} | {"jobs": []})[:-2]
    return (head + "\n" + ",\n".join(map(json.dumps, jobs)) + "\n]}\n").encode()


def test_a_long_answer_is_printed_as_it_comes(home: Path) -> None:
    jobs = [a_job(id=number, name="x" * (number > 900)) for number in range(1, 1001)]
    with FakeDaemon(home, lambda request: stream(streamed(jobs))):
        table, whole = calls.grass(home, "show", "all"), calls.grass(home, "show", "all", "--json")
        ids = calls.grass(home, "show", "-q", "all")
    assert whole.stdout.encode() == streamed(jobs) and json.loads(whole.stdout)["jobs"] == jobs
    header, *rows = table.stdout.splitlines()
    assert header.split()[:3] == ["ID", "NAME", "QUEUE"] and [int(row.split()[0]) for row in rows] == [*range(1, 1001)]
    assert rows[-1].split()[1] == "x"
    assert ids.stdout.split() == [str(number) for number in range(1, 1001)]


def test_of_a_long_answer_that_breaks_off_what_came_is_printed_and_the_rest_is_missed(home: Path) -> None:
    jobs = [a_job(id=number) for number in range(1, 1001)]
    with FakeDaemon(home, lambda request: stream(streamed(jobs)[:-100], whole=False)):
        done = calls.grass(home, "show", "all")
    assert done.returncode == 4 and "closed the connection" in done.stderr and len(done.stdout.splitlines()) > 600


def on_a_terminal(home: Path, answer: dict[str, Any], **environ: str) -> list[str]:
    """The lines `grass show` draws on a terminal."""
    with FakeDaemon(home, lambda request: document(answer)):
        drawn = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "show", "all", **environ)
    return drawn.decode().splitlines()


def test_on_a_terminal_a_table_fits_and_has_colours(home: Path) -> None:
    long = [a_job(id=2, state="failed", command=["x" * 200]), a_job(id=3, command=["日本" * 50])]
    lines = on_a_terminal(home, {**ANSWER, "jobs": long, "more": False})
    assert any("\x1b[31mfailed\x1b[0m" in line for line in lines)
    plain = on_a_terminal(home, {**ANSWER, "jobs": long, "more": False}, NO_COLOR="1")
    assert not any("\x1b" in line for line in plain)
    assert "x…" in plain[1] and ("本…" in plain[2] or "日…" in plain[2])
    assert all(render.columns(line) <= 60 for line in plain)


def test_columns_of_a_text() -> None:
    assert [render.columns(text) for text in ("", "abc", "é", "日本", "e\u0301", "a\u200bb")] == [0, 3, 1, 4, 1, 2]


@given(st.datetimes(min_value=datetime.datetime(1970, 1, 1), max_value=datetime.datetime(9999, 12, 30)))
def test_times_are_read_as_datetime_reads_them(when: datetime.datetime) -> None:
    text = when.isoformat(timespec="milliseconds") + "Z"
    expected = datetime.datetime.fromisoformat(text).timestamp()
    found = job_text.seconds(text)
    assert found is not None and abs(found - expected) < 1e-3


@given(
    st.datetimes(min_value=datetime.datetime(2020, 1, 1), max_value=datetime.datetime(2099, 1, 1)), st.integers(0, 59)
)
def test_a_job_took_no_less_than_it_ran(started: datetime.datetime, seconds: int) -> None:
    finished = started + datetime.timedelta(seconds=seconds)
    times = [when.isoformat(timespec="milliseconds") + "Z" for when in (started, finished)]
    assert job_text.took({"started": times[0], "finished": times[1]}, 0.0) == f"{seconds}s"
    suspended = {"started": times[0], "state": "running", "suspended_since": times[1], "suspended_s": seconds // 2}
    assert job_text.took(suspended, 4e9) == f"{seconds - seconds // 2}s", (
        "the time in which it is suspended is left out"
    )
    assert job_view.elapsed_s(suspended, 4e9) == seconds - seconds // 2
    assert job_text.took({**suspended, "suspended_s": "lies"}, 4e9) == f"{seconds}s"


@pytest.mark.parametrize("text", [None, "", "soon", "2026-13-45Tab:00:00.000Z", "2026-01-02"])
def test_strange_times_are_no_reason_to_fail(text: str | None) -> None:
    assert isinstance(job_text.clock(text, 0.0), str)


@given(st.lists(st.text(max_size=10), max_size=4))
def test_commands_read_as_one_would_type_them(words: list[str]) -> None:
    assert job_text.command({"command": words}) == shlex.join(words)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=10,
    )
)
def test_json_is_read_as_json_reads_it(value: object) -> None:
    assert encoding.parse(json.dumps(value).encode()) == value
    assert encoding.parse(json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize("data", [b"", b" ", b"{", b"[1,]", b"nul", b"1 2", b"\xff", b'"\n"'])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        encoding.parse(data)
