"""How the options of enqueue and run are read."""

from __future__ import annotations

import pytest
from tests.core.syntax.enqueue_lines import CONTEXT, cases, enqueue, job

from grassq.core.syntax.enqueue import split_enqueue
from grassq.errors import BadInput


def test_every_option_is_read() -> None:
    line = (
        "--require={} -e A=1 --env=B=x=y --cwd /d --queue exp1 --name n.1 --priority -5 --hold --split -q --json "
        "--sync --grace 1.5m --on-lost requeue --tries 3 --broker a:1 ls"
    )
    assert enqueue(line) == job(
        "ls",
        queue="exp1",
        env=((b"A", b"1"), (b"B", b"x=y")),
        request="{}",
        cwd=b"/d",
        name="n.1",
        priority=-5,
        hold=True,
        split=True,
        quiet=True,
        json=True,
        sync=True,
        grace_s=90.0,
        on_lost="requeue",
        tries=3,
        broker="a:1",
    )


@pytest.mark.parametrize(("retries", "tries"), [("0", 1), ("2", 3), ("999", 1000)])
def test_retries_are_the_tries_after_the_first(retries: str, tries: int) -> None:
    assert (
        enqueue(f"--retries {retries} ls").options.tries == enqueue(f"--retries={retries} -- ls").options.tries == tries
    )
    assert enqueue("ls").options.tries == 1


@pytest.mark.parametrize("option", ["--on-lost=fail", "--on-lost fail"])
def test_an_option_takes_its_value_in_either_spelling(option: str) -> None:
    assert enqueue(f"{option} ls").options.on_lost == "fail"


@pytest.mark.parametrize(
    "options",
    cases(
        "--env A ; --env =1 ; -e=A=1 ; -eA=1 ; --env ; --cwd= ; --cwd '' ; --name 1 ; --name all ; "
        "--name wait ; --priority x ; --priority 1e3 ; --priority 99999999 ; "
        "--priority 999999999999999999999999999999 ; --hold=1 ; --quiet= ; --grace 5x ; --grace 99w ; "
        "--grace 366d ; --on-lost retry ; --tries 0 ; --tries 1.5 ; "
        "--retries -1 ; --retries 1000 ; --tries 2 --retries 1 ; --name a --name b ; --gpu=1 --gpu=2 ; "
        "--gpu 1 --GPU=1 ; --cwd a --cwd=b ; --queue exp1 --queue exp1 ; --shell --shell=/bin/sh ; "
        "--shell= ; --require {} --gpu=1 ; --gpu python ; --gpu -1 ; --mem= ; --license 1 ; --hol ; "
        "--nam x ; -x ; -qx ; --Queue=exp1 ; --grass_x=1 ; --home=1 ; --é=1"
    ),
)
def test_an_option_given_badly_is_refused(options: str) -> None:
    with pytest.raises(BadInput):
        enqueue(f"{options} -- ls")
    with pytest.raises(BadInput):
        enqueue(f"{options} ls")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--nmae=x ls", "unknown option '--nmae=x'; did you mean --name?"),
        ("--gpus=1 ls", "unknown option '--gpus=1'; did you mean --gpu?"),
        ("--zzz ls", "unknown option '--zzz'"),
        ("--hold=1 ls", "unknown option '--hold=1': --hold takes no value"),
        ("-e=A=1 ls", "unknown option '-e=A=1': write -e and its value as two words"),
        ("--license 1 ls", "unknown option '--license': write the amount in the same word, --license=1"),
        ("--grace x ls", "--grace needs a number and its unit, such as 90s, 5m, 1h30m or 7d, not 'x'"),
        ("--gpu python x", "--gpu needs an amount, not 'python', such as --gpu=1"),
        ("--env A ls", "--env needs NAME=VALUE, not 'A'"),
    ],
)
def test_a_refused_option_says_what_was_typed_and_meant(line: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        enqueue(line)
    assert str(caught.value) == message


@pytest.mark.parametrize("field", ["--name", "--queue", "--require", "--gpu", "--broker", "--grace"])
def test_bytes_that_are_not_text_are_refused_where_text_is_needed(field: str) -> None:
    with pytest.raises(BadInput):
        split_enqueue([f"{field}=1\xff".encode("latin-1"), b"--", b"ls"], CONTEXT)


def test_bytes_that_are_not_text_are_kept_where_bytes_are_allowed() -> None:
    read = split_enqueue([b"--cwd=/\xff", b"-e", b"\xfe=\xff", b"ls", b"\xfd"], CONTEXT)
    assert (read.options.cwd, read.options.env, read.words) == (b"/\xff", ((b"\xfe", b"\xff"),), (b"ls", b"\xfd"))
