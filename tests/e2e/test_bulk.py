"""Many jobs at once, by the command line and from Python, through a real daemon."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from tests.e2e.world import BIN, Done, Grass

import grassq
from grassq.errors import BadInput

#: Enough that nothing about it is small: the body comes in parts and is read on another thread.
MANY = 20_000


def enqueue(grass: Grass, text: bytes, *words: str) -> Done:
    """`grass enqueue WORDS` with lines on its stdin."""
    argv = [str(BIN / "grass"), "enqueue", *words]
    done = subprocess.run(argv, input=text, cwd=grass.cwd, env=grass.env, capture_output=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_each_line_runs_as_it_would_in_a_shell(grass: Grass) -> None:
    grass.write("mine.py", "import sys; print('mine', sys.argv[1:])\n")
    text = b"""
# what comes first
/bin/echo plain   words
echo "a shell $((1 + 1))" | tr a-z A-Z
  A=7 sh -c 'echo $A'\r
mine.py 3
/bin/echo \xff
cd / && pwd"""
    done = enqueue(grass, text, "--stdin", "--name", "mix", "-e", "B=1")
    assert done == (0, "6 jobs enqueued: 1-6\n", ""), done
    assert grass.ok("wait", "1-6") is not None
    logs = [grass.log(id_) for id_ in range(1, 7)]
    assert logs == ["plain words\n", "A SHELL 2\n", "7\n", "mine ['3']\n", "\udcff\n", "/\n"]
    assert [job["shell"] for job in grass.jobs("name:mix")] == [False, True, True, False, False, True]


def test_a_wrong_line_stores_nothing(grass: Grass) -> None:
    done = enqueue(grass, b"/bin/true\n/bin/true\nls a\0b\n", "--stdin")
    assert (done.code, done.out) == (2, "")
    assert done.err == "grass: line 3: the command holds a NUL byte, which no program can be given\n"
    grass.nothing_was_stored()


def test_many_distinct_jobs_are_stored_at_once_and_survive_a_crash(grass: Grass) -> None:
    grass.ok("pause")
    text = b"".join(b"/bin/true --seed %d\n" % number for number in range(MANY))
    assert enqueue(grass, text, "--stdin", "-q") == (0, f"1-{MANY}\n", "")
    grass.crash()
    totals = grass.json("show")["totals"]
    assert totals["queued"] == MANY
    assert grass.job(MANY)["command"] == ["/bin/true", "--seed", str(MANY - 1)]
    printed = json.loads(enqueue(grass, b"/bin/true\n", "--stdin", "--json").out)
    assert printed == {"first": MANY + 1, "count": 1, "queue": "default", "state": "queued"}
    grass.ok("kill", "all")


def test_submit_many_from_python(client: grassq.Client, grass: Grass) -> None:
    with client:
        commands: list[str | list[str | bytes]]
        commands = [["sh", "-c", "exit $0", "0"], "echo one | cat", "/bin/echo two", ["/bin/echo", "a  b", b"\xfe"]]
        jobs = client.submit_many(iter(commands), name="some", cpu=1, env={"X": "1"})
        assert [job.id for job in jobs] == [1, 2, 3, 4]
        assert all(job.info["state"] == "succeeded" for job in client.wait(*jobs, timeout=30))
        assert [job.log_bytes() for job in jobs] == [b"", b"one\n", b"two\n", b"a  b \xfe\n"]
        assert [job.info["shell"] for job in jobs] == [False, True, False, False]
        assert client.submit_many([]) == []


def test_submit_many_is_all_or_nothing(client: grassq.Client, grass: Grass) -> None:
    with client:
        with pytest.raises(BadInput, match=r"commands\[1\]: there is no program 'no-such-program'"):
            client.submit_many([["true"], ["no-such-program"]])
        with pytest.raises(BadInput, match="a command is empty"):
            client.submit_many(["true", " "])
        with pytest.raises(TypeError, match="'colour'"):
            client.submit_many(["true"], colour="red")  # type: ignore[call-arg]
        with pytest.warns(UserWarning, match="there is no queue 'later' yet"):
            [job] = client.submit_many(["true"], queue="later", wait_for_queue=True)
        assert [each["id"] for each in grass.jobs()] == [job.id]
        job.kill()


def test_the_same_key_gives_the_same_jobs(client: grassq.Client) -> None:
    key = os.urandom(16).hex()
    with client:
        first = client.submit_many(["true", "false"], hold=True, key=key)
        again = client.submit_many(["true", "false"], hold=True, key=key)
        assert [job.id for job in first] == [job.id for job in again] == [1, 2]
        client.submit(["true"], hold=True)
        assert len(client.jobs("all")) == 3
