"""One try to send a notice: real commands, a real HTTP server, apprise itself."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import eventually, is_alive
from tests.notify.receiver import Receiver, receiver

from grassq.core.notices.notice import Clue, JobEnd, Notice
from grassq.core.notices.targets import stored_target
from grassq.notify import bounded_command, senders
from grassq.notify.senders import NoticeSender, SendResult

END = JobEnd(
    job=7,
    queue="gpu",
    state="failed",
    created=1.0,
    started=2.0,
    finished=5.5,
    outcome="exited",
    exit_code=3,
    name="fit",
)
NOTICE = Notice(
    event="job", title="job 7 (fit) failed", at=5.5, end=END, queue="gpu", clue=Clue("Killed", "out of memory")
)


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as state:
        yield state


def send(to: str, home: Path, *, try_s: float = 10.0, cwd: bytes = b"") -> SendResult:
    env = {b"PATH": os.fsencode(os.environ["PATH"]), b"HOME": os.fsencode(home), b"GRASS_BROKER": b"b"}
    sender = NoticeSender(env, str(home), try_s=try_s)
    return asyncio.run(sender.send(stored_target(to), NOTICE, cwd))


def test_a_url_gets_the_notice_as_json(server: Receiver, tmp_path: Path) -> None:
    assert send(server.url("/hook"), tmp_path) == SendResult()
    [sent] = server.documents("/hook")
    assert (sent["event"], sent["title"], sent["text"]) == ("job", NOTICE.title, "cause: out of memory\nKilled")
    job = sent["job"]
    assert (job["id"], job["name"], job["state"], job["exit_code"], job["took_s"]) == (7, "fit", "failed", 3, 3.5)
    assert job["finished"] == "1970-01-01T00:00:05.500Z"


@pytest.mark.parametrize("host", ["a..b", ".example", "a" * 64 + ".example"])
def test_a_host_that_cannot_be_encoded_fails_for_good(host: str, tmp_path: Path) -> None:
    assert send(f"http://{host}/s3cr3t", tmp_path) == SendResult("the URL cannot be used", for_good=True)


@pytest.mark.parametrize(
    ("style", "body"),
    [
        ("slack", {"text": NOTICE.message}),
        ("discord", {"content": NOTICE.message}),
        ("ntfy", NOTICE.message),
        ("text", NOTICE.message),
    ],
)
def test_a_chat_gets_its_own_form(style: str, body: object, server: Receiver, tmp_path: Path) -> None:
    assert send(server.url(f"/x#{style}"), tmp_path) == SendResult()
    [(path, sent)] = server.bodies
    assert path == "/x", "what chooses the form is not sent"
    assert (json.loads(sent) if isinstance(body, dict) else sent.decode()) == body


@pytest.mark.parametrize(
    ("status", "for_good"), [(500, False), (503, False), (429, False), (408, False), (404, True), (401, True)]
)
def test_an_error_says_whether_another_try_may_help(
    status: int, for_good: bool, server: Receiver, tmp_path: Path
) -> None:
    server.statuses["/x"] = [status]
    result = send(server.url("/x"), tmp_path)
    assert result.error.startswith(f"answers {status}") and result.for_good is for_good


def test_a_receiver_may_ask_to_wait(server: Receiver, tmp_path: Path) -> None:
    server.statuses["/x"], server.headers["Retry-After"] = [429], "7"
    assert send(server.url("/x"), tmp_path).after_s == 7.0


def test_a_redirect_is_not_followed(server: Receiver, tmp_path: Path) -> None:
    server.statuses["/loop"] = [307]
    result = send(server.url("/loop"), tmp_path)
    assert result.for_good and "redirect (307)" in result.error
    assert len(server.bodies) == 1


def test_an_endless_answer_is_not_read(server: Receiver, tmp_path: Path) -> None:
    began = time.monotonic()
    assert send(server.url("/huge"), tmp_path) == SendResult()
    server.statuses["/huge"] = [500]
    assert send(server.url("/huge"), tmp_path).error.startswith("answers 500")
    assert time.monotonic() - began < 5


def test_a_url_that_hangs_or_refuses_is_given_up_within_the_limit(server: Receiver, tmp_path: Path) -> None:
    assert send(server.url("/hang"), tmp_path, try_s=0.2).error == "no answer within 0.2 s"
    server.let_go.set()
    assert send("http://127.0.0.1:1/secret", tmp_path).error.startswith("cannot connect: ")
    assert "secret" not in send("http://no-such-host.invalid/secret", tmp_path).error


def test_a_command_gets_the_notice_on_stdin_and_in_variables(tmp_path: Path) -> None:
    line = 'cat > got.json; echo "$GRASS_JOB_ID|$GRASS_STATE|$GRASS_EXIT_CODE|$GRASS_CAUSE|$GRASS_BROKER" > got.env'
    assert send(line, tmp_path, cwd=os.fsencode(tmp_path)) == SendResult()
    assert json.loads((tmp_path / "got.json").read_text())["job"]["id"] == 7
    assert (tmp_path / "got.env").read_text() == "7|failed|3|out of memory|\n"


def test_a_command_that_fails_says_how(tmp_path: Path) -> None:
    assert send("echo one; echo two >&2; exit 4", tmp_path) == SendResult("exit code 4: two")
    assert send("no-such-program-here", tmp_path).for_good
    assert send("kill -9 $$", tmp_path).error == "signal 9"
    assert send("true", tmp_path, cwd=b"/no/such/folder") == SendResult()


def test_a_command_is_killed_at_the_limit_with_all_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    line = "sleep 100 & echo $! > child; yes & wait"
    result = send(line, tmp_path, try_s=0.5, cwd=os.fsencode(tmp_path))
    assert result.error == "did not end within 0.5 s, and was killed"
    assert time.monotonic() - began < 10
    eventually(lambda: not is_alive(int((tmp_path / "child").read_text())), "the child of the command ends")


def test_what_a_command_leaves_behind_is_killed_when_it_ends(tmp_path: Path) -> None:
    assert send("sleep 100 & echo $! > child", tmp_path, cwd=os.fsencode(tmp_path)) == SendResult()
    eventually(lambda: not is_alive(int((tmp_path / "child").read_text())), "the child of the command ends")


def test_a_command_may_write_without_end_and_little_of_it_is_kept(tmp_path: Path) -> None:
    async def run() -> bounded_command.CommandEnd:
        argv = ["/bin/sh", "-c", "head -c 3000000 /dev/zero"]
        return await bounded_command.run_bounded(argv, b"", env={}, cwd=b"/", limit_s=20)

    end = asyncio.run(run())
    assert end.code == 0 and len(end.output) == bounded_command.OUTPUT_MAX


def test_a_command_that_cannot_be_watched_is_killed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    started: list[int] = []
    monkeypatch.setattr(os, "pidfd_open", refuse)
    result = send("sleep 100 & wait", tmp_path)
    assert result.error == "cannot be started: Too many open files" and not result.for_good
    assert not is_alive(started[0])


def test_apprise_sends_for_real(server: Receiver, tmp_path: Path) -> None:
    assert send(f"json://127.0.0.1:{server.port}/hook", tmp_path, try_s=30) == SendResult()
    [sent] = server.documents("/hook")
    assert sent["title"] == NOTICE.title and "Killed" in sent["message"] and sent["type"] == "failure"


def test_apprise_says_what_it_cannot_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send("no-such-scheme://x", tmp_path, try_s=30).for_good
    refused = send("json://127.0.0.1:1/s3cr3t", tmp_path, try_s=30)
    assert refused.error.startswith("exit code 1") and not refused.for_good and "s3cr3t" not in refused.error
    monkeypatch.setattr(senders, "has_apprise", lambda: False)
    missing = send("mailto://me@example.org", tmp_path)
    assert missing == SendResult("needs apprise: pip install 'grassq[notify]'", for_good=True)


def test_the_desktop_is_told_through_notify_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no notify-send" in send("desktop", tmp_path).error
    program = tmp_path / "notify-send"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$DBUS_SESSION_BUS_ADDRESS" > "$HOME/told"\n')
    program.chmod(0o755)
    monkeypatch.setattr(senders, "_user_bus", lambda: None)
    missing = send("desktop", tmp_path)
    assert "no session bus" in missing.error and missing.for_good
    monkeypatch.setattr(senders, "_user_bus", lambda: b"unix:path=/bus")
    assert send("desktop", tmp_path) == SendResult()
    told = (tmp_path / "told").read_text().splitlines()
    assert told[:3] == ["--app-name=grass", "--urgency=critical", "--"]
    assert told[3:] == [NOTICE.title, "cause: out of memory", "Killed", "unix:path=/bus"]
