"""What changed when a queue was replaced, in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from grassq.core.model import Offer
from grassq.core.offer_changes import change_note, changes
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Device, DeviceCount, DeviceIds, Devices, Pool
from grassq.core.resources.slots import Slot

OLD = Offer("q", {"gpu": DeviceCount(2), "cpu": Pool(4 * ONE)}, (b"python3", b"my train.py"), b"/work", ((b"A", b"1"),))


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (replace(OLD, limits={}), ["limit gpu 2 -> none", "limit cpu 4 -> none"]),
        (replace(OLD, limits={**OLD.limits, "gpu": DeviceIds(("2", "3"))}), ["limit gpu 2 -> [2,3]"]),
        (replace(OLD, limits={**OLD.limits, "printer": DeviceCount(1)}), ["limit printer none -> 1"]),
        (replace(OLD, limits={**OLD.limits, "gpu": Devices((Device("a"),))}), ["limit gpu 2 -> {a: 1}"]),
        (replace(OLD, prefix=()), ["command python3 'my train.py' -> none"]),
        (replace(OLD, cwd=None), ["directory /work -> none"]),
        (replace(OLD, env=((b"A", b"2"), (b"B", b""))), ["variable A changed", "variable B added"]),
        (replace(OLD, env=()), ["variable A removed"]),
        (replace(OLD, unsecure=True), ["--unsecure no -> yes"]),
        (replace(OLD, allow_env=(b"X",)), ["--allow-env none -> X"]),
        (
            replace(OLD, limits={}, slots=(Slot("0"), Slot("1,2"))),
            ["limit gpu 2 -> none", "limit cpu 4 -> none", "slots none -> 0 1,2"],
        ),
        (OLD, []),
    ],
)
def test_each_difference_is_named_with_the_old_and_the_new_value(new: Offer, said: list[str]) -> None:
    assert changes(OLD, new) == said


def test_a_template_tells_its_labels_too() -> None:
    assert change_note(OLD, OLD, (("a100",), ())) == ["changed: labels a100 -> none"]
    assert change_note(OLD, OLD) == []


def test_many_and_long_differences_are_cut() -> None:
    many = replace(OLD, env=tuple((b"V%d" % number, b"") for number in range(1000)), prefix=(b"x" * 100_000,))
    [note] = change_note(OLD, many)
    assert len(note) < 2000 and note.endswith("more")


def test_the_value_of_a_variable_is_not_printed() -> None:
    assert "secret" not in str(changes(OLD, replace(OLD, env=((b"A", b"secret"),))))


@given(st.sampled_from(["prefix", "cwd", "env"]), st.binary(min_size=1, max_size=200))
def test_any_bytes_are_shown_on_one_line(field: str, value: bytes) -> None:
    new = replace(OLD, **{field: {"prefix": (value,), "cwd": value, "env": ((value, b""),)}[field]})
    assert all(line.isprintable() for line in changes(OLD, new))
