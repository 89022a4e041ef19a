"""Changes of devices: what each verb does to what a machine has, what is refused, and what a worker may say of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.builders import a_capacity, a_worker, an_offer

from grassq.core.messages import Hello
from grassq.core.model import WorkerInfo
from grassq.core.planner.workers import machine_capacity
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Device, Devices
from grassq.core.resources.device_changes import (
    IDS_MAX,
    ChangedDevices,
    Verb,
    change,
    changed_capacity,
    checked_change,
)
from grassq.core.worker_checks import checked
from grassq.errors import BadInput, GrassError, NotFound, Refused

BASE = a_capacity(gpu={"0": {"vram": 8}, "1": {"vram": 8}, "2": {"vram": 8}}, cpu=4)


def ids(capacity: Capacity, name: str = "gpu") -> str:
    supply = capacity.get(name)
    return " ".join(device.id for device in supply.devices) if isinstance(supply, Devices) else ""


def after(*lines: str, base: Capacity = BASE) -> tuple[dict[str, ChangedDevices], list[str]]:
    """What is changed after some lines such as `drain 0 1`, and the notes of the last."""
    changes: dict[str, ChangedDevices] = {}
    notes: list[str] = []
    for line in lines:
        verb, *words = line.split()
        verbs: dict[str, Verb] = {"add": "add", "remove": "remove", "drain": "drain", "undrain": "undrain"}
        resource = words.pop().removeprefix("=") if words[-1].startswith("=") else "gpu"
        changes, notes = change(changes, checked_change(verbs[verb], words, resource), base)
    return changes, notes


@pytest.mark.parametrize(
    ("lines", "there", "drained"),
    [
        (("add 7",), "0 1 2 7", ""),
        (("remove 1",), "0 2", ""),
        (("remove 1", "add 1"), "0 1 2", ""),
        (("add 7", "remove 7"), "0 1 2", ""),
        (("drain 0 2",), "0 1 2", "0 2"),
        (("drain 0 2", "undrain 2"), "0 1 2", "0"),
        (("drain 0", "remove 0"), "1 2", ""),
        (("add 7", "drain 7", "remove 7", "add 7"), "0 1 2 7", ""),
        (("remove 0 1 2",), "", ""),
        (("add b a 10 9",), "0 1 2 9 10 a b", ""),
    ],
)
def test_devices_come_and_go(lines: tuple[str, ...], there: str, drained: str) -> None:
    changes, notes = after(*lines)
    assert ids(changed_capacity(BASE, changes)) == there and not notes
    assert " ".join(changes.get("gpu", ChangedDevices()).drained) == drained
    undone = {"add 7", "remove 7"} == set(lines) or lines == ("remove 1", "add 1")
    assert (changes == {}) == undone, "nothing is kept of what was undone"


def test_a_device_that_comes_back_is_what_it_was_and_a_new_one_is_like_the_others() -> None:
    changes, _ = after("remove 1", "add 1 7")
    supply = changed_capacity(BASE, changes)["gpu"]
    assert isinstance(supply, Devices)
    assert supply.devices[1] == Device("1", ONE, 8 * ONE) and supply.devices[3] == Device("7", ONE, 0)
    halves = a_capacity(gpu={"0": 512, "1": 512})
    supply = changed_capacity(halves, after("add 2", base=halves)[0])["gpu"]
    assert isinstance(supply, Devices) and {device.worth for device in supply.devices} == {512 * ONE}
    assert checked_change("add", ["8-10", 9, "a-b"]).ids == ("8", "9", "10", "a-b")
    with_memory, _ = change({}, checked_change("add", ["7"], vram=24 * ONE), BASE)
    assert with_memory["gpu"].added == (Device("7", ONE, 24 * ONE),)


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        (("add 0",), "gpu 0 is there already"),
        (("drain 0", "add 0"), "gpu 0 is there already; `grass device undrain` lets it take jobs again"),
        (("remove 0", "remove 0"), "gpu 0 was removed already"),
        (("drain 0", "drain 0"), "gpu 0 is drained already"),
        (("undrain 0",), "gpu 0 is not drained"),
    ],
)
def test_what_is_so_already_is_noted(lines: tuple[str, ...], note: str) -> None:
    assert after(*lines)[1] == [note]


@pytest.mark.parametrize(
    ("line", "kind", "why"),
    [
        ("remove 9", NotFound, "this machine has no gpu '9'; it has 0, 1, 2"),
        ("drain 0 9", NotFound, "this machine has no gpu '9'"),
        ("undrain 9", NotFound, "this machine has no gpu '9'"),
        ("drain 0 =printer", NotFound, "this machine has no printer '0'; it has none"),
        ("add 1 =cpu", BadInput, "cpu has no devices of its own"),
        ("add 1 =vram", BadInput, "vram has no devices of its own"),
        ("add a/b", BadInput, "a/b"),
        ("add 1 =Name!", BadInput, "resource name"),
        ("add cpu", BadInput, "cpu is a resource, not a device; it is a sum without devices"),
        ("add 7 gpu", BadInput, "gpu is a resource, not a device; name its devices: --resource gpu 0 1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(line: str, kind: type[GrassError], why: str) -> None:
    with pytest.raises(kind, match=why):
        after(line)


def test_numbers_have_bounds_and_a_sum_has_no_devices() -> None:
    with pytest.raises(BadInput, match=f"name 1 to {IDS_MAX} devices"):
        checked_change("add", [str(i) for i in range(IDS_MAX + 1)])
    with pytest.raises(BadInput, match=f"name 1 to {IDS_MAX} devices"):
        checked_change("add", [])
    with pytest.raises(Refused, match="tokens is a sum on this machine"):
        after("add 1 =tokens", base=a_capacity(tokens={"pool": 5}))
    with pytest.raises(BadInput, match="tokens is a resource, not a device; it is a sum"):
        after("add tokens", base=a_capacity(tokens={"pool": 5}))


def test_devices_that_queues_declare_can_be_changed_too() -> None:
    info = a_worker(offers=[an_offer("q", gpu=2)], cpu=4)
    changes, _ = after("add 7", "remove 0", "drain 1", base=machine_capacity(info))
    changed = replace(info, devices=changes)
    assert ids(machine_capacity(changed)) == "1 7"
    assert ids(machine_capacity(replace(changed, offers=(an_offer(),)))) == "7", "the queue is gone"


@pytest.mark.parametrize(
    "devices",
    [
        {"gpu": ChangedDevices(added=(Device("7"), Device("7")))},
        {"gpu": ChangedDevices(added=(Device("a\x1bb"),))},
        {"gpu": ChangedDevices(drained=("0", "0"))},
        {"gpu": ChangedDevices(removed=("x" * 1000,))},
        {"gpu": ChangedDevices(added=(Device("7", -1),))},
        {"gpu": ChangedDevices(added=(Device("7", ONE, 1 << 62),))},
        {"vram": ChangedDevices(drained=("0",))},
        {"evil\n": ChangedDevices(drained=("0",))},
        {f"r{n}": ChangedDevices(drained=("0",)) for n in range(100)},
    ],
)
def test_what_no_worker_of_ours_says_of_its_devices_ends_its_connection(devices: dict[str, ChangedDevices]) -> None:
    info: WorkerInfo = replace(a_worker(gpu=2), devices=devices)
    with pytest.raises(BadInput):
        checked(Hello(info))
