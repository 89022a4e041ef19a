"""A stored job as a line for a shell: what reads the line gets the same job."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_job, a_request

from grassq.core.editing.typed import shell_line, typed_words
from grassq.core.editing.values import options_of
from grassq.core.options.warning import Warn
from grassq.core.syntax.enqueue import KnownQueue, SubmitContext, split_enqueue
from grassq.core.syntax.file_words import SentTree

CONTEXT = SubmitContext(
    {"q": KnownQueue(resources=frozenset({"gpu", "printer"})), "default": KnownQueue()},
    frozenset({"gpu", "printer"}),
    frozenset({"gpu"}),
    lambda word: True,
)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"command": (b"python", b"train.py", b"--lr=0.1", b"a b", b"--", b"-x")},
        {"command": (b"a | b > 'c'",), "shell": b"/bin/bash"},
        {"env": ((b"A", b"1=2"), (b"B", b"x y")), "notify": ("desktop",)},
        {"cwd": b"/data/new run", "own_cwd": True, "tries": 3, "grace_s": 2.5, "split": True},
        {"log_max": 0, "on_lost": "requeue", "keep_children": True, "wrap": b"nice -n 10", "project": "p"},
        {"log_max": 5 << 20, "output": b"/o/{job.id}.txt", "env_from": "there", "python": b"/venv"},
        {"log_max": 100 << 10},
        {"time_limit_s": 31e6, "warn": Warn(90.5, "USR2"), "idle_limit_s": 1800.0, "grace_s": 0.001},
        {"fetch": (b"*.pt", b"out"), "fetch_to": b"/back", "setup": b"uv sync", "setup_files": (b"uv.lock",)},
        {"request": a_request(gpu=0.5, printer=2)},
    ],
)
def test_the_words_give_the_same_job(spec: dict[str, Any]) -> None:
    job = a_job(3, "q")
    job = replace(job, name="lr0.1", priority=44, spec=replace(job.spec, **spec))
    words = typed_words(job, with_secrets=True)
    again = split_enqueue(words[1:], CONTEXT)
    assert again.words == job.spec.command
    assert replace(again.options, request=None) == replace(options_of(job), request=None)
    assert again.options.request == ({"gpu": "0.5", "printer": "2"} if job.spec.request else "{}")
    hidden = typed_words(job, with_secrets=False)
    assert not any(word.startswith((b"--env=", b"--notify=")) for word in hidden)


def test_a_folder_that_is_sent_is_named_with_its_place() -> None:
    job = a_job()
    trees = (SentTree("0" * 64, b"", b"/a"), SentTree("0" * 64, b"sub", b"/b"), SentTree("0" * 64, b"", b"/c:d"))
    words = typed_words(replace(job, spec=replace(job.spec, send=trees)), with_secrets=True)
    assert [word for word in words if word.startswith(b"--send")] == [b"--send=/a", b"--send=/b:sub", b"--send=/c:d:."]


def test_bash_reads_any_bytes_back() -> None:
    words = [b"", b"plain", b"two words", b"it's", b"\xff\x00"[:1], "grün \u202e".encode(), b"a\nb\t$(x)`y`\\", b"!x"]
    line = shell_line([b"printf", b"%s\\0", *words])
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == words


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126))))
def test_plain_words_are_quoted_as_shells_do(words: list[str]) -> None:
    assert shlex.split(shell_line([word.encode() for word in words])) == words
