"""How slots are read, as words of `--slots` and of other programs that have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from grassq.core.model import Offer
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import DeviceIds
from grassq.core.resources.slots import Slot, limits_of, parse_slots, parts
from grassq.core.syntax.enqueue import split_create_queue
from grassq.core.syntax.options import is_resource_name
from grassq.core.syntax.slots import SLOTS_MAX, device_order
from grassq.errors import BadInput


def names(words: str, per_device: int = 1) -> list[str]:
    return [slot.name for slot in parse_slots(words.split(), per_device)]


@pytest.mark.parametrize(
    ("words", "slots"),
    [
        ("0", ["0"]),
        ("0,1,2", ["0", "1", "2"]),
        ("0 1 2", ["0", "1", "2"]),
        ("0,1 2", ["0,1", "2"]),
        ("1,0 2", ["1,0", "2"]),
        ("0,0,1", ["0", "0", "1"]),
        ("0,2-4", ["0", "2", "3", "4"]),
        ("0 2-4", ["0", "2", "3", "4"]),
        ("0-1,4 5", ["0,1,4", "5"]),
        ("GPU-8f-1,MIG-2", ["GPU-8f-1", "MIG-2"]),
        ("-", [""]),
        ("0 - -", ["0", "", ""]),
        ("0,-,1", ["0", "", "1"]),
        ("[0,1]", ["0,1"]),
        ("[0,1] [2] -", ["0,1", "2", ""]),
    ],
)
def test_slots_are_read_as_typed(words: str, slots: list[str]) -> None:
    assert names(words) == slots
    assert [",".join(slot.ids) for slot in parse_slots(words.split())] == slots


def test_several_jobs_to_a_device_repeat_the_whole_list() -> None:
    assert names("0,1", 2) == ["0", "1", "0", "1"]
    assert names("0,1 2", 3) == ["0,1", "2"] * 3


@pytest.mark.parametrize(
    "words",
    [
        "",
        "0,",
        ",0",
        "0,,1",
        "0,1, 2",
        "0,0 1",
        "0-1,1 2",
        "4-2",
        "0-99999999",
        "a/b",
        "é",
        "-1",
        "0 ,",
        "x" * 65,
        "[]",
        "[0,1",
        "0,- 1",
    ],
)
def test_what_is_no_slot_is_refused_in_one_sentence(words: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_slots(words.split())
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200


def test_there_is_an_end_to_the_number_of_slots() -> None:
    assert len(parse_slots(["0"], SLOTS_MAX)) == SLOTS_MAX
    for words, times in (("0,1", SLOTS_MAX), ("0", SLOTS_MAX + 1), ("0", 0), ("0", -1)):
        with pytest.raises(BadInput):
            parse_slots([words], times)
    with pytest.raises(BadInput):
        parse_slots([f"0-{SLOTS_MAX - 1}", "a"])
    with pytest.raises(BadInput):
        parse_slots(["0-3999", "4000-4199,x"])
    with pytest.raises(BadInput, match="characters"):
        parse_slots(["1", "0-4000,x"])
    for many, times in (["0-99,x"] * 700, 1), (["0-99,x", "y"], 700):
        with pytest.raises(BadInput, match="in all"):
            parse_slots(many, times)


def test_what_is_read_can_be_stored_and_read_again() -> None:
    largest = parse_slots(["0-14,x"] * SLOTS_MAX)
    for slots in (largest, parse_slots(["0-900,x", "1"])):
        offer = Offer("q", limits_of(slots), slots=slots)
        assert json.decode(json.encode(offer), type=Offer) == offer


ids = st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True).map(lambda each: ",".join(map(str, each)))


@given(st.lists(ids, min_size=2, max_size=6), st.integers(1, 3))
def test_several_words_are_a_slot_each(words: list[str], times: int) -> None:
    slots = parse_slots(words, times)
    assert [slot.name for slot in slots] == words * times
    listed = [id_ for slot in slots for id_ in slot.ids]
    assert parts(slots) == {id_: ONE // listed.count(id_) for id_ in listed}
    assert limits_of(slots) == {"gpu": DeviceIds(tuple(sorted(set(listed), key=device_order)))}


def test_slots_of_no_device_limit_nothing() -> None:
    assert limits_of((Slot(""), Slot(""))) == {}


def test_create_queue_reads_slots_and_their_order() -> None:
    made = split_create_queue([b"q", b"--slots", b"0,1 2", b"--order=rotate", b"--env", b"A=1", b"nice"])
    assert (made.slots, made.order, made.limits) == (parse_slots(["0,1", "2"]), "rotate", {})
    assert split_create_queue([b"--slots=0,1", b"q"]).order == "stack"
    assert split_create_queue([b"q"]).slots == ()
    assert split_create_queue([b"q", b"cmd", b"--slots", b"0"]).prefix == (b"cmd", b"--slots", b"0")


@pytest.mark.parametrize(
    "words",
    [
        ["--slots", "0", "--gpu=1"],
        ["--slots", "0", "--cpu=1"],
        ["--slots", "0", "--capacity", "{gpu: 1}"],
        ["--slots", "0", "--order", "random"],
        ["--order", "stack"],
        ["--slots", "0", "--slots", "1"],
        ["--slots", " "],
        ["--slots", "0,"],
    ],
)
def test_create_queue_refuses_slots_that_make_no_sense(words: list[str]) -> None:
    with pytest.raises(BadInput):
        split_create_queue([b"q", *(word.encode() for word in words)])


def test_no_resource_is_called_like_a_slot() -> None:
    assert not any(map(is_resource_name, ("slot", "slots", "order")))


def test_an_offer_keeps_its_slots_and_one_of_an_older_release_has_none() -> None:
    slots = parse_slots(["1,0", "2"])
    offer = Offer("q", limits_of(slots), slots=slots, order="rotate")
    assert json.decode(json.encode(offer), type=Offer) == offer
    assert json.decode(b'{"queue": "q"}', type=Offer) == Offer("q")
