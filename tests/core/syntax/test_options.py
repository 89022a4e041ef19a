"""How the words of create-queue are read; what resources may be called; durations."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.resources.amounts import check_resource_name
from grassq.core.syntax.durations import duration_s
from grassq.core.syntax.enqueue import CreateQueue, split_create_queue
from grassq.core.syntax.options import RESERVED, is_resource_name
from grassq.errors import BadInput, GrassError
from grassq.settings import Settings


def create(line: str) -> CreateQueue:
    return split_create_queue([word.encode() for word in shlex.split(line)])


def cases(text: str) -> list[str]:
    return [case.strip() for case in text.split(";")]


README_CREATE = {
    "grass create-queue exp1 --cpu=32 --gpu=2": CreateQueue(
        name="exp1",
        limits=dict(
            (
                ("cpu", "32"),
                ("gpu", "2"),
            )
        ),
    ),
    "grass create-queue exp2 --cpu=32 --gpu=[2,3]": CreateQueue(
        name="exp2",
        limits=dict(
            (
                ("cpu", "32"),
                ("gpu", "[2,3]"),
            )
        ),
    ),
    'grass create-queue job1 --capacity "{gpu:4,cpu:16}" main.py arg1': CreateQueue(
        name="job1", capacity="{gpu:4,cpu:16}", prefix=(b"main.py", b"arg1")
    ),
    'grass create-queue --capacity "{gpu:4}" cifar100 python train.py': CreateQueue(
        name="cifar100", capacity="{gpu:4}", prefix=(b"python", b"train.py")
    ),
    'grass create-queue --capacity "{printer:1}" print lpr': CreateQueue(
        name="print", capacity="{printer:1}", prefix=(b"lpr",)
    ),
}


@pytest.mark.parametrize("line", README_CREATE)
def test_every_create_queue_line_of_the_readmes_is_read_as_meant(line: str) -> None:
    assert create(line.removeprefix("grass create-queue")) == README_CREATE[line]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "--gpu 2 q --mem=8G",
            CreateQueue(
                name="q",
                limits=dict(
                    (
                        ("gpu", "2"),
                        ("mem", "8G"),
                    )
                ),
            ),
        ),
        (
            "q --printer=[a,b] -- lpr -P x",
            CreateQueue(name="q", limits=dict((("printer", "[a,b]"),)), prefix=(b"lpr", b"-P", b"x")),
        ),
        ("q python --gpu=1 -- x", CreateQueue(name="q", prefix=(b"python", b"--gpu=1", b"--", b"x"))),
        ("q A=1 python", CreateQueue(name="q", prefix=(b"python",), env=((b"A", b"1"),))),
        ("q --", CreateQueue(name="q")),
        (
            "-q --cwd /d q -e A=1 --env B=2 --worker node1 --unsecure --json",
            CreateQueue(
                name="q",
                cwd=b"/d",
                env=((b"A", b"1"), (b"B", b"2")),
                worker="node1",
                unsecure=True,
                json=True,
                quiet=True,
            ),
        ),
    ],
)
def test_create_queue_reads_options_on_both_sides_of_the_name(line: str, expected: CreateQueue) -> None:
    assert create(line) == expected


@pytest.mark.parametrize(
    "line",
    cases(
        " ; --gpu=2 ; -- q ; 17 ; all ; running ; enqueue ; q --capacity {} --gpu=1 ; --gpu=1 --gpu=2 q ; "
        "q --frobnicate x ; --frobnicate q ; q -- -x ; q -- '' ; q --hold ; q --gpu ; q --gpu two ; "
        "q --capacity ; q -x ; q -- --"
    ),
)
def test_create_queue_refuses_what_makes_no_sense(line: str) -> None:
    with pytest.raises(BadInput):
        create(line)


@pytest.mark.parametrize("name", ["gpu", "GPU", "a", "slots_2", "x" * 32])
def test_what_a_resource_may_be_called(name: str) -> None:
    assert is_resource_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "1", "_a", "a-b", "é", "\u212a", "x" * 33, "grass", "grass_job_id", "queue", "Queue", *sorted(RESERVED)],
)
def test_what_a_resource_may_not_be_called(name: str) -> None:
    assert not is_resource_name(name)


def test_no_resource_is_called_like_a_setting() -> None:
    assert set(Settings.__struct_fields__) <= RESERVED


def test_a_queue_says_what_senders_from_other_machines_may_set_and_whose_it_is() -> None:
    made = create("q --allow-env SEED --worker 3090-box --allow-env=LR --unsecure --broker h:1 cmd --allow-env X")
    assert (made.allow_env, made.worker, made.unsecure, made.broker) == ((b"LR", b"SEED"), "3090-box", True, "h:1")
    assert made.prefix == (b"cmd", b"--allow-env", b"X")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("90s", 90),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("0.5s", 0.5),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1w", 604800),
        ("1week", 604800),
        ("2 days", 172800),
        ("1 hour 5 minutes", 3900),
        ("90 sec", 90),
        ("2H", 7200),
    ],
)
def test_durations_carry_their_unit(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "5", "00", "s", "-1s", "1x", "1mo", "1e3s", ".5s", "9" * 5000 + "s", "1m30", "30 1m", "nan", "infs", "53w"],
)
def test_a_duration_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        duration_s(text)


def test_a_number_without_a_unit_is_asked_for_one() -> None:
    with pytest.raises(BadInput, match="--older 7 has no unit: write 7d for days, or 7h, 7m, 7s"):
        duration_s("7", "--older")


@pytest.mark.parametrize(("text", "seconds"), [("10", 10), ("0.5", 0.5), ("10m", 600), ("0", 0)])
def test_a_number_counts_seconds_where_only_seconds_can_be_meant(text: str, seconds: float) -> None:
    assert duration_s(text, "--timeout", unit="s") == seconds


def test_a_nul_byte_in_a_queues_command_is_refused() -> None:
    with pytest.raises(BadInput):
        split_create_queue([b"q", b"a\0b"])


PIECES = [
    b"q",
    b"--",
    b"-",
    b"--gpu",
    b"--gpu=2",
    b"2",
    b"-e",
    b"A=1",
    b"--cwd",
    b"--capacity={}",
    b"-q",
    b"\xff",
    b"--x",
]
WORDS = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=12)), max_size=8)


@given(WORDS)
def test_creating_ends_in_a_queue_or_a_sentence(words: list[bytes]) -> None:
    try:
        read = split_create_queue(words)
    except GrassError as error:
        assert error.exit_code == 2
    else:
        assert read.prefix == tuple(words[len(words) - len(read.prefix) :])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("slot", "'slot' is reserved"),
        ("Name", "'Name' is reserved"),
        ("grass_x", "'grass_x' is reserved"),
        ("2x", "a resource name begins with a letter, then letters, digits or _, at most 32: not '2x'"),
        ("größe", "a resource name begins with a letter, then letters, digits or _, at most 32: not 'größe'"),
    ],
)
def test_a_refused_resource_name_says_whether_it_is_reserved(name: str, reason: str) -> None:
    with pytest.raises(BadInput, match=re.escape(reason)):
        check_resource_name(name)
