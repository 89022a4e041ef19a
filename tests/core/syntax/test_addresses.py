"""Addresses as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.syntax.addresses import ADDRESSES_MAX, PORT, Address, parse_address, parse_addresses
from grassq.errors import BadInput


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("my.server.com:7501", "my.server.com", 7501),
        ("my.server.com", "my.server.com", PORT),
        ("My.Server.COM", "my.server.com", PORT),
        ("1.2.3.4:1", "1.2.3.4", 1),
        ("[::1]:7501", "::1", 7501),
        ("[::1]", "::1", PORT),
        ("fe80::1", "fe80::1", PORT),
        ("[fe80::1%eth0]:7501", "fe80::1%eth0", 7501),
        (" host ", "host", PORT),
        ("host:65535", "host", 65535),
    ],
)
def test_an_address_is_a_host_and_maybe_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    ["", ":", ":7500", "host:", "host:0", "host:65536", "host:x", "host:+1", "[::1", "[::1]7500", "[::1]:", "a b",
     "http://host", "a@b", "host:" + "9" * 5000, "x" * 300, "a\0b", "a\nb", "host:٣",
     "a#b", "a?b", "a%b", "a\\b", "a:b:c", "fe80::1%a#b", "::ä"],
)  # fmt: skip
def test_what_is_no_address_is_a_sentence(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--connect '"):
        parse_address(text, "--connect")


def test_several_have_commas_between_them() -> None:
    assert [str(each) for each in parse_addresses("a, b:1,[::1]")] == ["a:7500", "b:1", "[::1]:7500"]
    with pytest.raises(BadInput):
        parse_addresses("a,,b")
    with pytest.raises(BadInput, match="more than"):
        parse_addresses(",".join(["a"] * (ADDRESSES_MAX + 1)))


@given(
    st.one_of(st.ip_addresses().map(str), st.from_regex(r"[a-z][a-z0-9.-]{0,30}", fullmatch=True)),
    st.integers(1, 65535),
)
def test_an_address_as_written_is_read_as_the_same(host: str, port: int) -> None:
    address = Address(host, port)
    assert parse_address(str(address)) == address
    assert hash(parse_address(str(address))) == hash(address)
