"""Which jobs are like each other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.builders import a_job

from grassq.core.forecast.likeness import BYTES_MAX, command_shape, kinds_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"python train.py --lr 0.1 --seed 3", b"python train.py --lr 1e-5 --seed 11"),
        (b"python train.py --out=/tmp/run1", b"python train.py --out=/scratch/x/run2"),
        (b"/usr/bin/python3 /home/a/train.py", b"/opt/env/bin/python3 /home/b/train.py"),
    ],
)
def test_numbers_and_places_of_files_do_not_matter(one: bytes, other: bytes) -> None:
    assert command_shape(tuple(one.split())) == command_shape(tuple(other.split()))
    assert command_shape((one,)) == command_shape((other,)), "also in a line for a shell"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"python train.py --model vit", b"python train.py --model resnet"),
        (b"python train.py", b"python test.py"),
        (b"python train.py --fast 1", b"python train.py --slow 1"),
    ],
)
def test_programs_options_and_words_matter(one: bytes, other: bytes) -> None:
    assert command_shape(tuple(one.split())) != command_shape(tuple(other.split()))


def test_a_shape_is_short_whatever_the_command() -> None:
    assert len(command_shape((b"x" * 100_000,) * 1000)) <= BYTES_MAX
    assert command_shape(()) == b""


def test_the_name_comes_first_and_every_job_is_like_any() -> None:
    job = replace(a_job(1, gpu=1), name="sweep")
    assert [level for level, _ in kinds_of(job)] == ["sweep", "command", "request", "any"]
