"""Amounts, requests and capacities: every spelling, and every one that makes no sense."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import a_capacity, a_request

from grassq.core.resources.amounts import (
    ONE,
    UNITS_MAX,
    allocation_json,
    amount_number,
    amount_text,
    check_resource_name,
    parse_amount,
    parse_request,
    request_text,
)
from grassq.core.resources.capacity import (
    Device,
    DeviceCount,
    DeviceIds,
    Devices,
    Limit,
    Pool,
    Supply,
    bind,
    capacity_text,
    parse_limits,
    supply_of,
    union,
)
from grassq.core.resources.fit import FreeView, fit
from grassq.core.resources.ledger import Ledger
from grassq.core.syntax.slots import DEVICES_MAX, device_order
from grassq.errors import BadInput, Refused

MIB = ONE

amounts = st.integers(0, UNITS_MAX * ONE)
ids = st.sampled_from([*map(str, range(12)), "a", "b", "left", "GPU-1"])
device_lists = st.lists(ids, unique=True, max_size=6).map(lambda found: sorted(found, key=device_order))
device_sets = device_lists.flatmap(
    lambda found: st.tuples(
        *(st.builds(Device, st.just(i), st.sampled_from([0, ONE // 2, ONE, 2 * ONE]), st.integers(0, 3)) for i in found)
    ).map(Devices)
)
pools = st.builds(Pool, amounts)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (0.5, 500_000),
        (1, ONE),
        (0, 0),
        ("2.5", 2_500_000),
        (".5", 500_000),
        ("1.", ONE),
        ("+1", ONE),
        (" 3 ", 3 * ONE),
        ("1e2", 100 * ONE),
        ("-0", 0),
        (0.000001, 1),
        ("0.000001", 1),
        ("0.5" + "0" * 61, 500_000),
        (0.1, 100_000),
        (0.29, 290_000),
        (UNITS_MAX, UNITS_MAX * ONE),
    ],
)
def test_an_amount_is_read_exactly(value: object, amount: int) -> None:
    assert parse_amount("gpu", value) == amount


@pytest.mark.parametrize(
    "value",
    [
        -1,
        "-0.5",
        float("nan"),
        "nan",
        "snan",
        "-nan",
        float("inf"),
        "Infinity",
        1e308,
        "1e308",
        "1e9999999",
        "1e999999999999999999999",
        "1e-9999999",
        "1e-99999999999",
        UNITS_MAX + 1,
        "1000000000.000001",
        "9" * 64,
        "1" + "0" * 64,
        True,
        False,
        None,
        [1],
        {"pool": 1},
        b"1",
        "",
        " ",
        "abc",
        "1_000",
        "0x10",
        "1,5",
        "16G",
        "1 2",
        "0.0000001",
        1e-7,
        0.1 + 0.2,
        1 / 3,
        "0." + "3" * 60,
        "0.5" + "0" * 40 + "1",
        "0.5" + "0" * 62,
    ],
)
def test_what_is_no_amount_is_bad_input(value: object) -> None:
    with pytest.raises(BadInput, match="gpu"):
        parse_amount("gpu", value)


@pytest.mark.parametrize(
    ("value", "mib"),
    [
        ("16G", 16 * 1024),
        ("16g", 16 * 1024),
        ("16GB", 16 * 1024),
        ("16GiB", 16 * 1024),
        ("16 G", 16 * 1024),
        ("512M", 512),
        (512, 512),
        ("512", 512),
        ("0.5G", 512),
        ("2048K", 2),
        ("1T", 1024 * 1024),
        ("953T", 953 * 1024 * 1024),
        ("1e3", 1000),
    ],
)
@pytest.mark.parametrize("name", ["mem", "disk", "vram"])
def test_sizes_are_binary_and_a_bare_number_is_mib(name: str, value: object, mib: int) -> None:
    assert parse_amount(name, value) == mib * MIB


@pytest.mark.parametrize(
    "value", ["954T", "2000000000", "1e300", "1e9999999", "-1G", "nanG", "G", "16X", "1e3G", "5\u212a", True]
)
def test_what_is_no_size_is_bad_input(value: object) -> None:
    with pytest.raises(BadInput, match="mem"):
        parse_amount("mem", value)


def test_a_size_finer_than_a_millionth_is_rounded_up() -> None:
    assert parse_amount("mem", "1K") == 977
    assert parse_amount("mem", 1 / 3) == 333_334


@given(st.one_of(st.text(max_size=70), st.floats(), st.integers(), st.binary(), st.none(), st.booleans()))
@pytest.mark.parametrize("name", ["gpu", "mem"])
def test_any_value_is_an_amount_in_range_or_bad_input(name: str, value: object) -> None:
    try:
        amount = parse_amount(name, value)
    except BadInput:
        return
    assert 0 <= amount <= UNITS_MAX * ONE


@given(st.decimals(0, UNITS_MAX, allow_nan=False, allow_infinity=False, places=6))
def test_six_decimals_are_kept_exactly(number: Decimal) -> None:
    assert parse_amount("gpu", str(number)) == number * ONE


@given(amounts)
def test_the_text_of_an_amount_reads_back_as_that_amount(amount: int) -> None:
    assert parse_amount("gpu", amount_text(amount)) == amount


@given(st.integers(0, 2**50))
def test_the_number_of_an_amount_reads_back_as_that_amount(amount: int) -> None:
    assert parse_amount("gpu", amount_number(min(amount, UNITS_MAX * ONE))) == min(amount, UNITS_MAX * ONE)


def test_amounts_are_written_without_needless_zeros() -> None:
    assert [amount_text(a) for a in (0, 1, 500_000, ONE, 1_250_000, 10 * ONE)] == [
        "0", "0.000001", "0.5", "1", "1.25", "10",
    ]  # fmt: skip
    assert (amount_number(2 * ONE), amount_number(ONE // 2)) == (2, 0.5)
    assert isinstance(amount_number(2 * ONE), int)


def test_ten_requests_of_a_tenth_fill_a_device_exactly_and_the_eleventh_finds_nothing() -> None:
    ledger = Ledger(a_capacity(gpu=1))
    for _ in range(10):
        found = fit(a_request(gpu=0.1), FreeView(ledger, Ledger({})))
        assert found == {"gpu": {"0": ONE // 10}}
        ledger.take(found)
    assert ledger.loads["gpu"]["0"].used == ONE
    assert fit(a_request(gpu="0.000001"), FreeView(ledger, Ledger({}))) != {"gpu": {"0": 1}}


def test_names_fold_to_lower_case() -> None:
    assert check_resource_name("GPU") == "gpu"
    assert parse_request({"Gpu": 1}) == (("gpu", ONE),)
    assert parse_limits({"GPU": 1}) == {"gpu": DeviceCount(1)}


@pytest.mark.parametrize("name", ["", "1gpu", "_x", "a-b", "a b", "é", "\u212a", "queue", "name", "grass_x", "grass"])
def test_what_is_no_resource_name_is_bad_input(name: str) -> None:
    for parse in (parse_request, parse_limits):
        with pytest.raises(BadInput, match=r"is reserved|a resource name begins"):
            parse({name: 1})


def test_a_request_is_sorted_and_asks_for_nothing_it_says_0_of() -> None:
    assert parse_request({"mem": "1G", "gpu": 0.5, "cpu": 0}) == (("gpu", ONE // 2), ("mem", 1024 * MIB))
    assert parse_request({"gpu": 1, "cpu": 2}) == parse_request({"cpu": "2", "gpu": 1.0})
    assert parse_request({}) == ()


def test_a_name_twice_is_bad_input() -> None:
    with pytest.raises(BadInput, match="asked for twice"):
        parse_request({"gpu": 1, "GPU": 2})
    with pytest.raises(BadInput, match="given twice"):
        parse_limits({"gpu": 1, "GPU": 2})


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("gpu", 4, DeviceCount(4)),
        ("gpu", "4", DeviceCount(4)),
        ("gpu", 4.0, DeviceCount(4)),
        ("gpu", 0, DeviceCount(0)),
        ("gpu", DEVICES_MAX, DeviceCount(DEVICES_MAX)),
        ("gpu", [2, 3], DeviceIds(("2", "3"))),
        ("gpu", ["b", 10, 9, "a"], DeviceIds(("9", "10", "a", "b"))),
        ("gpu", [], DeviceIds(())),
        ("gpu", [*range(DEVICES_MAX)], DeviceIds(tuple(map(str, range(DEVICES_MAX))))),
        ("gpu", {str(i): 1 for i in range(DEVICES_MAX)}, Devices(tuple(Device(str(i)) for i in range(DEVICES_MAX)))),
        ("gpu", {"0": 1, "1": 1}, Devices((Device("0"), Device("1")))),
        ("gpu", {"10": 1, "9": 0.5}, Devices((Device("9", ONE // 2), Device("10")))),
        ("gpu", {"0": {"vram": "24G"}}, Devices((Device("0", ONE, 24 * 1024 * MIB),))),
        ("gpu", {"0": {"vram": 10, "worth": 2}}, Devices((Device("0", 2 * ONE, 10 * MIB),))),
        ("gpu", {"0": {}}, Devices((Device("0"),))),
        ("gpu", {"pool": 2.5}, Pool(2_500_000)),
        ("tape", {"left": 512}, Devices((Device("left", 512 * ONE),))),
        ("cpu", 16, Pool(16 * ONE)),
        ("cpu", 0.5, Pool(ONE // 2)),
        ("cpu", {"pool": 16}, Pool(16 * ONE)),
        ("mem", "16G", Pool(16 * 1024 * MIB)),
        ("disk", {"pool": "1T"}, Pool(1024 * 1024 * MIB)),
    ],
)
def test_a_capacity_has_many_spellings(name: str, value: object, limit: Limit) -> None:
    assert parse_limits({name: value}) == {name: limit}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("gpu", 0.5, "whole devices"),
        ("gpu", "2.5", "whole devices"),
        ("gpu", -1, "not an amount"),
        ("gpu", True, "not an amount"),
        ("gpu", None, "not an amount"),
        ("gpu", DEVICES_MAX + 1, "more than 4096"),
        ("gpu", list(range(DEVICES_MAX + 1)), "more than 4096"),
        ("gpu", {str(i): 1 for i in range(DEVICES_MAX + 1)}, "more than 4096"),
        ("gpu", [0, 0], "distinct"),
        ("gpu", [0, "0"], "distinct"),
        ("gpu", [0.5], "not a device id"),
        ("gpu", [True], "not a device id"),
        ("gpu", [None], "not a device id"),
        ("gpu", [-1], "not a device id"),
        ("gpu", ["a b"], "not a device id"),
        ("gpu", ["x" * 65], "not a device id"),
        ("gpu", {"": 1}, "not a device id"),
        ("gpu", {"a,b": 1}, "not a device id"),
        ("gpu", {"9" * 5000: 1}, "not a device id"),
        ("gpu", {"0": None}, "not an amount"),
        ("gpu", {"0": {"ram": 1}}, "worth and vram"),
        ("gpu", {"0": {"vram": "x"}}, "not an amount"),
        ("gpu", {"pool": -1}, "not an amount"),
        ("cpu", {"0": 1}, "not an amount"),
        ("cpu", [0], "not an amount"),
        ("cpu", {"pool": 1, "more": 2}, "not an amount"),
        ("cpu", "many", "a number such as 1 or 0.5"),
        ("mem", "much", "a number of MiB, or 512M, 16G"),
        ("vram", "24G", "belongs to a device"),
    ],
)
def test_what_is_no_capacity_is_bad_input(name: str, value: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_limits({name: value})


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=6,
)


@given(st.sampled_from(["gpu", "cpu", "mem", "tape"]), json_values)
def test_any_capacity_is_read_or_is_bad_input(name: str, value: object) -> None:
    try:
        limits = parse_limits({name: value})
    except BadInput:
        return
    supply = supply_of(limits[name])
    if isinstance(supply, Devices):
        found = [device.id for device in supply.devices]
        assert found == sorted(set(found), key=device_order)


def test_numbers_come_before_names_and_by_value() -> None:
    assert sorted(["b", "10", "9", "a", "²"], key=device_order) == ["9", "10", "a", "b", "²"]


def test_a_limit_declares_devices_where_the_machine_knows_none() -> None:
    assert supply_of(DeviceCount(2)) == Devices((Device("0"), Device("1")))
    assert supply_of(DeviceIds(("2", "a"))) == Devices((Device("2"), Device("a")))
    assert supply_of(Pool(3)) == Pool(3)
    assert supply_of(Devices((Device("0", 5),))) == Devices((Device("0", 5),))


@given(device_sets, device_sets)
def test_the_union_of_devices_has_each_once_with_the_larger_worth_and_memory(first: Devices, second: Devices) -> None:
    joined = union(first, second)
    assert isinstance(joined, Devices)
    assert joined == union(second, first)
    found = {device.id: device for device in joined.devices}
    assert [*found] == sorted(found, key=device_order)
    for device_id in {d.id for d in (*first.devices, *second.devices)} | set(found):
        both = [d for d in (*first.devices, *second.devices) if d.id == device_id]
        assert found[device_id].worth == max(d.worth for d in both)
        assert found[device_id].vram == max(d.vram for d in both)


@given(pools, pools)
def test_of_two_pools_the_larger_counts(first: Pool, second: Pool) -> None:
    assert union(first, second) == Pool(max(first.amount, second.amount))


def test_of_two_kinds_the_first_counts() -> None:
    assert union(Pool(1), Devices(())) == Pool(1)
    assert union(Devices(()), Pool(1)) == Devices(())


@given(device_sets, st.integers(0, 8))
def test_a_count_binds_the_first_devices_there_are(supply: Devices, n: int) -> None:
    assert bind("gpu", DeviceCount(n), supply) == Devices(supply.devices[:n])


@given(device_sets, device_lists)
def test_a_list_binds_exactly_the_devices_it_names_or_is_refused(supply: Devices, named: list[str]) -> None:
    known = {device.id: device for device in supply.devices}
    if set(named) <= set(known):
        assert bind("gpu", DeviceIds(tuple(named)), supply) == Devices(tuple(known[i] for i in named))
    else:
        with pytest.raises(Refused, match="this machine has no gpu"):
            bind("gpu", DeviceIds(tuple(named)), supply)


@given(device_sets, device_sets)
def test_an_object_binds_at_most_what_the_device_is_worth(limit: Devices, supply: Devices) -> None:
    known = {device.id: device for device in supply.devices}
    if not {device.id for device in limit.devices} <= set(known):
        with pytest.raises(Refused):
            bind("gpu", limit, supply)
        return
    bound = bind("gpu", limit, supply)
    assert isinstance(bound, Devices)
    assert [d.id for d in bound.devices] == [d.id for d in limit.devices]
    for got, asked in zip(bound.devices, limit.devices, strict=True):
        assert got.worth == min(asked.worth, known[got.id].worth)
        assert got.vram == known[got.id].vram


@given(pools, pools, st.integers(0, 100))
def test_a_pool_binds_at_most_what_there_is(limit: Pool, supply: Pool, n: int) -> None:
    assert bind("cpu", limit, supply) == Pool(min(limit.amount, supply.amount))
    assert bind("gb", DeviceCount(n), supply) == Pool(min(n * ONE, supply.amount))


@pytest.mark.parametrize(
    ("limit", "supply", "says"),
    [
        (Pool(ONE), Devices((Device("0"),)), "gpu is devices"),
        (DeviceIds(("0",)), Pool(ONE), "gpu is a pool"),
        (Devices((Device("0"),)), Pool(ONE), "gpu is a pool"),
        (DeviceIds(("0",)), Devices(()), "it has none"),
        (DeviceIds(("7",)), Devices((Device("0"), Device("1"))), "it has 0, 1"),
    ],
)
def test_a_limit_the_machine_cannot_meet_is_refused_in_words(limit: Limit, supply: Supply, says: str) -> None:
    with pytest.raises(Refused, match=says):
        bind("gpu", limit, supply)


def test_a_request_and_an_allocation_can_be_shown() -> None:
    assert request_text(a_request(gpu=0.5, cpu=4)) == "cpu 4, gpu 0.5"
    assert request_text(()) == "nothing"
    assert allocation_json(None) is None
    assert allocation_json({"gpu": {"0": ONE}, "cpu": 4 * ONE, "mem": ONE // 2}) == {
        "gpu": {"0": 1.0},
        "cpu": 4,
        "mem": 0.5,
    }


def test_a_capacity_in_words_counts_devices_and_sums_pools() -> None:
    assert capacity_text(a_capacity(cpu=16, mem="64G", gpu=[2, 3])) == "cpu 16, mem 65536, gpu 2"
    assert capacity_text({}) == ""
