"""Many jobs of one request: by lines and by commands, from the owner and from another machine."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import a_worker, an_offer
from tests.web.broker_fixture import Answer, BrokerFixture, key, play

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello
from grassq.core.model import Job, Offer
from grassq.core.syntax import shell_lines
from grassq.core.syntax.selectors import AllJobs

ENV = [["PATH", "/usr/bin:/bin"], ["SHELL", "/bin/sh"]]


async def stored(fixture: BrokerFixture) -> list[Job]:
    return await fixture.engine.read(lambda batch: batch.store.jobs(AllJobs(), 100))


async def enqueue(
    fixture: BrokerFixture, words: str, text: str | dict[str, str] | None, token: str | None = None
) -> Answer:
    body: dict[str, Any] = {"words": words.split(), "key": key(), "env": ENV, "cwd": "/"}
    if text is not None:
        body["lines"] = text
    return await fixture.ask("POST", "/v1/enqueue", body, token, local=token is None)


def out(answer: Answer) -> tuple[str, str]:
    """What an answer has for stdout and for stderr."""
    size = int(answer.headers["grass-stdout"])
    return answer.body[:size].decode(), answer.body[size:].decode()


async def with_queues(fixture: BrokerFixture, *offers: Offer) -> None:
    fixture.engine.post(FromWorker("w", Hello(a_worker("w", offers=[an_offer(), *offers], cpu=4))))
    await fixture.engine.read(lambda batch: None)


def test_options_hold_for_every_line() -> None:
    async def test(fixture: BrokerFixture) -> None:
        text = "/bin/true 1\n\n# a remark\n/bin/true 2"
        answer = await enqueue(fixture, "--stdin --cpu=2 --name=lr --priority=40 --hold -e A=b --tries 3", text)
        assert out(answer) == ("2 jobs enqueued: 1-2\n", "")
        one, two = await stored(fixture)
        assert (one.spec.command, two.spec.command) == ((b"/bin/true", b"1"), (b"/bin/true", b"2"))
        for job in (one, two):
            assert (job.name, job.priority, job.state, job.spec.tries) == ("lr", 40, "held", 3)
            assert job.spec.env == ((b"A", b"b"),)
            assert job.spec.request == (("cpu", 2_000_000),)
            assert job.spec.env_digest == one.spec.env_digest

    play(test)


@pytest.mark.parametrize(
    ("line", "command", "shell"),
    [
        ("/bin/ls -l a", (b"/bin/ls", b"-l", b"a"), None),
        ("ls -l a", (b"ls", b"-l", b"a"), None),
        ("ls *.py", (b"ls *.py",), b"/bin/sh"),
        ("echo hi", (b"echo hi",), b"/bin/sh"),
        ("A=1 ls", (b"A=1 ls",), b"/bin/sh"),
        ("no-such-program a", (b"no-such-program a",), b"/bin/sh"),
        ("  ls 'a b' ", (b"ls 'a b' ",), b"/bin/sh"),
        ("/bin/ls {job.id}", (b"/bin/ls", b"{job.id}"), None),
    ],
)
def test_only_what_needs_a_shell_gets_one(line: str, command: tuple[bytes, ...], shell: bytes | None) -> None:
    async def test(fixture: BrokerFixture) -> None:
        assert out(await enqueue(fixture, "--stdin --hold", line + "\r\n"))[0] == "1 job enqueued: 1\n"
        [job] = await stored(fixture)
        assert (job.spec.command, job.spec.shell) == (command, shell)

    play(test)


def test_with_a_shell_option_every_line_is_for_that_shell() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await enqueue(fixture, "--stdin --shell=/bin/bash --hold", "/bin/ls\nls *")
        assert [job.spec.shell for job in await stored(fixture)] == [b"/bin/bash"] * 2

    play(test)


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("/bin/true\n\nls a\0b\n", "", "line 3: the command holds a NUL byte"),
        ("ls\nls \\\n-l\n", "", "line 2: the command ends in a backslash"),
        ("ls {cpu}\nls {tape}\n", "--require {cpu:1}", "line 2: {tape} is used but no tape is asked for"),
        ("ls\n" + "x" * (shell_lines.LINE_BYTES_MAX + 1), "", "line 2: the command is longer than"),
        ("x\necho\nls *\n", "own", "line 3: queue 'own' has a command of its own, so it takes plain words"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_stored(text: str, words: str, why: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_queues(fixture, Offer("own", {}, (b"/bin/echo",)), an_offer("t", tape=1))
        answer = await enqueue(fixture, f"{words} --stdin", text)
        assert answer.headers["grass-exit"] == "2"
        assert out(answer)[0] == "" and why in out(answer)[1]
        assert await stored(fixture) == []

    play(test)


def test_a_queue_with_a_command_takes_each_line_as_arguments() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_queues(fixture, Offer("own", {}, (b"/bin/echo",)))
        assert out(await enqueue(fixture, "own --hold --stdin", "echo lr=0.1\n-x\n"))[0] == "2 jobs enqueued: 1-2\n"
        assert [job.spec.command for job in await stored(fixture)] == [(b"echo", b"lr=0.1"), (b"-x",)]

    play(test)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("", "0 jobs enqueued\n"), ("-q", ""), ("--json", '{"first":null,"count":0,"queue":"default"}\n')],
)
def test_no_line_is_no_job_and_no_mistake(words: str, expected: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await enqueue(fixture, f"--stdin {words}", "\n# nothing\n")
        assert (answer.headers["grass-exit"], out(answer)) == ("0", (expected, ""))

    play(test)


def test_what_is_printed() -> None:
    async def test(fixture: BrokerFixture) -> None:
        assert out(await enqueue(fixture, "--stdin --hold -q", "ls\nls"))[0] == "1-2\n"
        assert out(await enqueue(fixture, "--stdin --hold -q", "ls"))[0] == "3\n"
        answer = await enqueue(fixture, "new --stdin --json", {"b64": "bHMgCv8="})
        assert out(answer)[0] == '{"first":4,"count":2,"queue":"new","state":"waiting"}\n'
        assert "there is no queue 'new' yet" in out(answer)[1]
        assert (await stored(fixture))[-1].spec.command == (b"\xff",)

    play(test)


def test_without_lines_the_words_are_only_looked_at() -> None:
    """Whose --stdin it is, the daemon says; the command reads its stdin after that."""

    async def test(fixture: BrokerFixture) -> None:
        asked = await enqueue(fixture, "--stdin", None)
        assert (asked.headers["grass-lines"], asked.headers["grass-exit"]) == ("1", "2")
        assert await stored(fixture) == []
        own = await enqueue(fixture, "ls --stdin", None)
        assert "grass-lines" not in own.headers
        assert [job.spec.command for job in await stored(fixture)] == [(b"ls", b"--stdin")]

    play(test)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--stdin ls", "'ls' is a program and no queue"),
        ("--stdin -- ls", "so 'ls' has no place here"),
        ("default --stdin ls", "so 'ls' has no place here"),
        ("--stdin --sync", "--sync follows one job"),
        ("--stdin --broker x", "--broker comes first"),
    ],
)
def test_words_that_make_no_sense_with_lines(words: str, why: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await enqueue(fixture, words, "ls\n")
        assert answer.headers["grass-exit"] == "2" and why in out(answer)[1]
        assert await stored(fixture) == []

    play(test)


def test_the_same_key_stores_once() -> None:
    async def test(fixture: BrokerFixture) -> None:
        body = {"words": ["--stdin"], "key": key(), "env": ENV, "lines": "ls 1\nls 2\n"}
        answers = [await fixture.ask("POST", "/v1/enqueue", body, local=True) for _ in range(2)]
        assert [out(answer)[0] for answer in answers] == ["2 jobs enqueued: 1-2\n"] * 2
        other = await fixture.ask("POST", "/v1/enqueue", {**body, "lines": "ls 3\n"}, local=True)
        assert "this key was used for another request" in out(other)[1]
        assert len(await stored(fixture)) == 2

    play(test)


def test_a_guest_names_the_queue_and_leaves_its_surroundings_at_home() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_queues(fixture, Offer("free", {}, unsecure=True), Offer("own", {}, (b"/bin/echo",)))
        ann = await fixture.token("submit", queues=("free", "own", "default"))
        assert "2 jobs enqueued" in out(await enqueue(fixture, "free --stdin", "there-only a\necho $HOME\n", ann))[0]
        words, shell = await stored(fixture)
        assert (words.spec.command, words.spec.shell, words.spec.by) == ((b"there-only", b"a"), None, shell.spec.by)
        assert (shell.spec.command, shell.spec.shell) == ((b"echo $HOME",), b"/bin/sh")
        for job in (words, shell):
            assert job.spec.cwd == b"" and job.spec.constraints.remote is not None
        assert shell.spec.constraints.remote is not None and shell.spec.constraints.remote.shell
        for line, code in (("--stdin", "5"), ("own --cwd=/tmp --stdin", "5"), ("ls --stdin", "3")):
            answer = await enqueue(fixture, line, "a\n", ann)
            assert answer.headers["grass-exit"] == code, (line, out(answer))
        answer = await enqueue(fixture, "free --stdin", "a\n", await fixture.token("submit", queues=("own",)))
        assert "your token may not use queue 'free'" in out(answer)[1]
        reader = await fixture.token("read")
        assert (await enqueue(fixture, "free --stdin", "a\n", reader)).status == 403
        assert len(await stored(fixture)) == 2

    play(test)


# From a program.


async def submit(fixture: BrokerFixture, commands: list[Any], token: str | None = None, **job: Any) -> Answer:
    body = {"job": job, "commands": commands, "key": key(), "env": ENV, "cwd": "/"}
    return await fixture.ask("POST", "/v1/submit-many", body, token, local=token is None)


def test_commands_are_lines_or_words() -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await submit(fixture, ["ls a", "ls *", ["echo", "a b"], [{"b64": "bHM="}]], hold=True, name="x")
        assert answer.json == {"first": 1, "count": 4, "warnings": []}
        jobs = await stored(fixture)
        assert [job.spec.command for job in jobs] == [(b"ls", b"a"), (b"ls *",), (b"echo", b"a b"), (b"ls",)]
        assert [job.spec.shell for job in jobs] == [None, b"/bin/sh", None, None]
        assert {job.name for job in jobs} == {"x"}

    play(test)


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        ([["ls"], []], r"commands[1]: there is nothing to run"),
        (["ls", "  "], r"commands[1]: there is nothing to run"),
        ([["ls", "a\0b"]], r"commands[0]: a word or variable holds a NUL byte"),
        ([], "a submission has 1 to 1,000,000 jobs"),
        ([["ls"], [{"b64": "?"}]], "commands[1]: a word is a string"),
    ],
)
def test_a_wrong_command_is_named_and_nothing_is_stored(commands: list[Any], why: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await submit(fixture, commands)
        assert answer.status == 400 and why in answer.words
        assert await stored(fixture) == []

    play(test)


def test_more_lines_than_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_lines, "LINES_MAX", 3)

    async def test(fixture: BrokerFixture) -> None:
        answer = await enqueue(fixture, "--stdin", "ls\n" * 4)
        assert "line 4: more than 3 commands at once" in out(answer)[1]
        assert "1 to 3 jobs" in (await submit(fixture, ["ls"] * 4)).words
        assert await stored(fixture) == []

    play(test)


def test_a_large_submission_is_whole_and_in_order() -> None:
    async def test(fixture: BrokerFixture) -> None:
        count = 5_000
        text = "".join(f"/bin/true {number}\n" for number in range(count))
        assert out(await enqueue(fixture, "--stdin --hold", text))[0] == f"{count} jobs enqueued: 1-{count}\n"
        jobs = await fixture.engine.read(lambda batch: batch.store.jobs(AllJobs(), 2 * count))
        assert [job.spec.command[1] for job in jobs] == [b"%d" % number for number in range(count)]

    play(test)
