"""Bad input: one clear line that says what to do, the documented exit code, and nothing stored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.e2e.world import Grass

from grassq.errors import BadInput, Refused
from grassq.home import Sender
from grassq.net.encoding import enqueue_body, new_key
from grassq.net.retry import exchange


@pytest.fixture
def user(grass: Grass) -> Grass:
    """Somebody with a queue `q` of two gpus."""
    grass.ok("create-queue", "q", "--gpu=2")
    return grass


def test_a_misspelt_command_says_what_was_meant(grass: Grass) -> None:
    assert "enqueue" in grass.refuses(2, "enqeue", "x")
    assert "create-queue" in grass.refuses(2, "create-queu", "x")
    assert "grass help" in grass.refuses(2, "zzzzzz")
    grass.nothing_was_stored()


def test_a_misspelt_program_never_becomes_a_job(user: Grass) -> None:
    """Rule 5 of the grammar."""
    assert "--queue pyhton" in user.refuses(3, "enqueue", "pyhton", "train.py")
    assert "pyhton" in user.refuses(3, "run", "pyhton", "train.py")
    assert "pyhton" in user.refuses(3, "enqueue", "LR=1", "pyhton", "train.py")
    user.nothing_was_stored()


def test_a_misspelt_queue_never_becomes_a_job_that_waits(user: Grass) -> None:
    user.ok("create-queue", "train", "--gpu=1")
    assert "did you mean 'train'?" in user.refuses(3, "enqueue", "trian", "--gpu=1", "true")
    assert "did you mean 'train'?" in user.refuses(3, "enqueue", "trian", "--", "true")
    user.nothing_was_stored()
    assert "the job waits" in user("enqueue", "--queue", "trian", "true").err


def test_a_whole_command_in_quotes_says_how_to_write_it(user: Grass) -> None:
    for words in (["sh -c true"], ["--", "sh -c true"], ["q", "sh -c true"]):
        code = 3 if len(words) == 1 else 2
        assert "leave out the quotes" in user.refuses(code, "enqueue", *words)
    assert "add --shell" in user.refuses(3, "enqueue", "echo a | wc")
    user.nothing_was_stored()


def test_an_option_that_goes_to_the_job_is_said_and_can_be_silenced(user: Grass) -> None:
    user.ok("create-queue", "train", "--gpu=2", "echo")
    said = user("enqueue", "train", "--lr=0.1", "--gpu=1")
    assert said.code == 0 and "note: --gpu=1 is passed to the job" in said.err
    assert user("enqueue", "-q", "train", "--lr=0.1", "--gpu=1").err == ""
    assert user("enqueue", "train", "--", "--lr=0.1", "--gpu=1").err == ""
    assert "note: '|' is passed to the job" in user("enqueue", "echo", "a", "|", "wc").err


def test_a_replaced_queue_says_what_changed(user: Grass) -> None:
    said = user("create-queue", "q", "--gpu=1", "TOKEN=abc", "echo")
    assert said.out == "queue q replaced\n"
    assert "changed: limit gpu 2 -> 1; command none -> echo" in said.err
    assert "variable TOKEN added" in said.err and "abc" not in said.err
    assert "a limit is --gpu=2" in user.refuses(2, "create-queue", "q", "gpu=2")
    assert "did you mean --gpu?" in user.refuses(2, "create-queue", "q", "--gpus=2")
    assert user("create-queue", "q", "--gpu=1", "TOKEN=abc", "echo").out == "queue q unchanged\n"
    user.ok("create-queue", "r", "--capacity", "{gpus: 3}")


WRONG_OPTIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--requier", "{gpu:1}", "q", "true"), "--require"),
    (("--gpu=1", "--naem=x", "--", "true"), "naem"),
    (("q", "--prioritty", "4", "true"), "--priority"),
    (("--req", "{gpu:1}", "q", "true"), "--req"),
    (("--env", "NOVALUE", "true"), "NAME=VALUE"),
    (("--env",), "--env"),
    (("--gpu=1", "--gpu=1", "q", "true"), "twice"),
    (("--priority", "soon", "true"), "--priority"),
    (("--tries", "0", "true"), "--tries"),
    (("--grace", "5x", "true"), "--grace"),
    (("--name", "running", "true"), "running"),
    (("--name", "17", "true"), "17"),
    (("--name", "a/b", "true"), "file names"),
    (("--queue", "all", "true"), "all"),
    (("--queue", "q", "q", "--gpu=1"), "q"),
    (("--on-lost", "retry", "true"), "requeue"),
    (("q",), "nothing to run"),
    ((), "nothing to run"),
    (("--", "-rf", "x"), "-rf"),
    (("--", ""), "cannot start"),
    (("-x", "true"), "-x"),
)


def test_a_wrong_option_is_named(user: Grass) -> None:
    """T4 among others."""
    for words, hint in WRONG_OPTIONS:
        assert hint in user.refuses(2, "enqueue", *words)
        assert user.jobs() == [], words
    # Before a `--` any name may be a resource, except one that looks misspelt; one that nobody has can never be given.
    assert "did you mean --gpu?" in user.refuses(2, "enqueue", "q", "--gpus=1", "--", "true")
    assert "gpus" in user.refuses(5, "enqueue", "--require", "{gpus: 1}", "q", "--", "true")
    assert "scanner" in user.refuses(5, "enqueue", "q", "--scanner=1", "--", "true")
    user.nothing_was_stored()


BAD_JSON5 = ["{gpu:", "{gpu:1", "gpu:1", "[1]", "{gpu}", "{'gpu':}", "1", "", "{gpu:1}}", "{2:1}"]


def test_bad_json5_is_refused(user: Grass) -> None:
    """F3, T7."""
    for text in BAD_JSON5:
        assert "--require" in user.refuses(2, "enqueue", "--require", text, "q", "true")
        assert user.jobs() == [], text
    user.nothing_was_stored()


AMOUNTS = ["-1", "nan", "NaN", "inf", "-inf", "1e999", "0.0000001", "99999999999999999999", "abc", "1,5", "0x10", "½"]


def test_no_absurd_amount_is_taken(user: Grass) -> None:
    """Negative, not a number, infinite, finer than a millionth, larger than anything."""
    for amount in AMOUNTS:
        assert "gpu" in user.refuses(2, "enqueue", f"--gpu={amount}", "q", "true")
        assert user.jobs() == [], amount
    user.nothing_was_stored()


AMOUNTS_AS_JSON5 = ["{gpu:-1}", "{gpu:NaN}", "{gpu:Infinity}", "{gpu:1e400}", "{gpu:null}", "{gpu:[1]}"]


def test_no_absurd_amount_is_taken_as_json5(user: Grass) -> None:
    for text in AMOUNTS_AS_JSON5:
        assert "gpu" in user.refuses(2, "enqueue", "--require", text, "q", "true")
        assert user.jobs() == [], text
    user.nothing_was_stored()


CAPACITIES = ["{gpu:-1}", "{gpu:1.5}", "{gpu:[0,0]}", "{gpu:{'0':-1}}", "{gpu:NaN}", "{no-name:1}"]


def test_no_absurd_capacity_is_taken(grass: Grass) -> None:
    for capacity in CAPACITIES:
        grass.refuses(2, "create-queue", "q", "--capacity", capacity)
    assert [queue["name"] for queue in grass.json("show")["queues"]] == ["default"]


def test_a_missing_directory_is_noticed_at_once(user: Grass) -> None:
    assert "nowhere" in user.refuses(2, "enqueue", "--cwd", "nowhere", "q", "--gpu=1", "--", "true")
    assert "nowhere" in user.refuses(2, "enqueue", "--cwd=/nowhere/at/all", "true")
    assert "nowhere" in user.refuses(2, "create-queue", "x", "--cwd=/nowhere/at/all", "true")
    user.nothing_was_stored()


def test_a_missing_program_is_noticed_at_once(user: Grass) -> None:
    assert "nosuchprogram" in user.refuses(2, "enqueue", "q", "nosuchprogram")
    assert "nosuchprogram" in user.refuses(2, "enqueue", "--", "nosuchprogram")
    assert "./gone" in user.refuses(2, "enqueue", "--", "./gone")
    user.nothing_was_stored()


def test_a_deleted_working_directory_is_one_line(grass: Grass) -> None:
    gone = grass.cwd / "gone"
    done = grass.bash(f"mkdir '{gone}'; cd '{gone}'; rmdir '{gone}'; grass enqueue true; exit $?")
    assert (done.code, done.err.count("\n")) == (2, 1), done
    grass.nothing_was_stored()


def test_a_nul_byte_is_refused(user: Grass) -> None:
    """No shell can type one; a program can send one."""
    with user.client() as client:
        for command in (["echo", "a\0b"], ["ec\0ho"]):
            with pytest.raises(BadInput, match="NUL"):
                client.submit([{"command": command}], Sender(os.fsencode(user.cwd), {}, 0o22))
        with pytest.raises(BadInput, match="NUL"):
            client.submit([{"command": ["true"], "env": [["A", "b\0"]]}], Sender(b"/", {}, 0o22))
        for cwd, env in ((b"/\0", {}), (b"/", {b"A\0": b"1"})):
            with pytest.raises(BadInput):
                client.submit([{"command": ["true"]}], Sender(cwd, env, 0o22))
        body = enqueue_body([b"echo", b"\0"], Sender.to("a broker"), new_key())
        answer = exchange(client.home, "POST", "/v1/enqueue", body)
        assert answer.headers["grass-exit"] == "2" and b"NUL" in answer.body
    user.nothing_was_stored()


def test_one_bad_job_of_many_stores_none(user: Grass) -> None:
    jobs = [{"command": ["true"], "request": {"gpu": amount}, "queue": "q"} for amount in (1, 1, 3)]
    with user.client() as client, pytest.raises(Refused):
        client.submit(jobs, Sender(b"/", {b"PATH": b"/bin:/usr/bin"}, 0o22))
    user.nothing_was_stored()


def test_a_key_is_one_submission(user: Grass) -> None:
    key = new_key()
    env = {b"PATH": b"/bin:/usr/bin"}
    with user.client() as client:
        first = client.submit([{"command": ["true"]}], Sender(b"/", env, 0o22), key=key)
        again = client.submit([{"command": ["true"]}], Sender(b"/", env, 0o22), key=key)
        assert first["ids"] == again["ids"]
        with pytest.raises(Refused, match="key"):
            client.submit([{"command": ["false"]}], Sender(b"/", env, 0o22), key=key)
    assert len(user.jobs()) == 1


NO_JOB = ["1", "3-7", "1,4", "@", "@~1", "nosuch", "queue:nosuch", "name:nosuch", "failed"]


def test_what_names_no_job_is_not_found(grass: Grass) -> None:
    for selector in NO_JOB:
        grass.refuses(3, "show", selector)
    for verb in ("why", "wait", "kill", "rerun", "hold", "release", "log", "follow", "clean"):
        grass.refuses(3, verb, "7")
    grass.refuses(3, "priority", "7", "40")


NO_SELECTOR = ["7-3", "1,", "@~", "@x", "!", "1.5", "99999999999999999999", "", "queue:"]


def test_what_is_no_selector_is_usage(grass: Grass) -> None:
    for selector in NO_SELECTOR:
        grass.refuses(2, "show", selector)


def test_wrong_arguments_of_other_commands_are_one_line(grass: Grass) -> None:
    for words in (
        ("show", "--jsno"), ("wait", "--timeout", "soon", "all"), ("kill", "--grace", "x", "all"),
        ("priority", "all"), ("priority", "all", "high"), ("log",), ("log", "--tail", "-1", "1"),
        ("log", "--lines", "x", "1"), ("show", "-o", "nosuch"),
        ("daemon", "--store", "nosuch:thing"), ("daemon", "--capacity", "{cpu:"), ("delete-queue",), ("start", "now"),
        ("daemon", "--no-broker", "--bind", "127.0.0.1:1"), ("create-queue",), ("create-queue", "17"),
        ("create-queue", "all"), ("clean", "--older", "x"),
    ):  # fmt: skip
        grass.refuses(2, *words)


def test_long_words_are_refused_or_run_whole(grass: Grass) -> None:
    """A word of the kernel's limit reaches the job; the API has a bound of its own."""
    tool = grass.write("size", '#!/bin/sh\nprintf %s "$1" | wc -c\n', 0o755)
    assert grass.run(str(tool), "x" * 100_000).strip() == "100000"
    with grass.client() as client, pytest.raises(BadInput):
        client.submit([{"command": ["true", "y" * (3 << 20)]}], Sender(b"/", {}, 0o22))
    assert len(grass.jobs()) == 1


def test_bad_settings_are_one_line(grass: Grass, tmp_path: Path) -> None:
    grass.home.mkdir(mode=0o700)
    (grass.home / "grass.toml").write_text("passes = [")
    assert "grass.toml" in grass.refuses(2, "show")
    (grass.home / "grass.toml").write_text('nosuch = "x"')
    assert "nosuch" in grass.refuses(2, "enqueue", "true")
    (grass.home / "grass.toml").unlink()
    assert "cpu" in grass.refuses(2, "show", env={"GRASS_CAPACITY": "{cpu: -1}"})
    grass.nothing_was_stored()


#: The longest word that Linux gives to a program, and the least that is too long for all words and variables together.
LONGEST = (128 << 10) - 1
TOO_MUCH = ["x" * 100_000] * 21


def test_a_command_too_long_for_any_program_is_refused_at_submission(grass: Grass) -> None:
    with grass.client() as client:
        for word in ("x" * (LONGEST + 1), "; " + "x" * LONGEST):
            with pytest.raises(BadInput, match=r"commands\[1\]: .*131,071 bytes"):
                client.submit_many(["true", f"true {word}"], {})
        with pytest.raises(BadInput, match="131,071 bytes"):
            client.submit([{"command": ["true", "x" * (LONGEST + 1)]}])
        with pytest.raises(BadInput, match="131,071 bytes"):
            client.submit([{"command": ["true"], "env": [["A", "x" * LONGEST]]}])
        with pytest.raises(BadInput, match="all words and variables together"):
            client.submit([{"command": ["true", *TOO_MUCH]}])
        with pytest.raises(BadInput, match="all words and variables together"):
            client.submit_many([["true", *TOO_MUCH]], {})
        assert grass.jobs() == []
        fits = client.submit_many([["true", "x" * LONGEST], ["true", *TOO_MUCH[:18]]], {})["first"]
    assert grass.until(fits, "succeeded") and grass.until(fits + 1, "succeeded")
