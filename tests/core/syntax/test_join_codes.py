"""Codes: one word that says where a broker is, how to know it, and with which right to come."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.syntax.addresses import ADDRESSES_MAX, Address
from grassq.core.syntax.join_codes import PREFIX, TEXT_MAX, Code, decode, encode
from grassq.errors import BadInput

WHOLE = encode(Code([Address("my.server.com"), Address("::1", 7501)], bytes(range(32)), "1a2b3c4d", "s" * 43))
PLAIN = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_", min_size=1, max_size=43)


@given(st.lists(st.integers(1, 65535), min_size=1, max_size=ADDRESSES_MAX), st.binary(min_size=32, max_size=32), PLAIN)
def test_a_code_comes_back_whole(ports: list[int], fingerprint: bytes, secret: str) -> None:
    addresses = [Address("host", port) for port in ports]
    word = encode(Code(addresses, fingerprint, "1a2b3c4d", secret))
    code = decode(f" {word}\n")
    assert (code.addresses, code.fingerprint, code.id, code.secret) == (addresses, fingerprint, "1a2b3c4d", secret)
    assert word.isascii() and word.replace(".", "").replace("-", "").replace("_", "").isalnum()


def made_of(parts: object) -> str:
    return PREFIX + base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


FINGERPRINT = "00" * 32


@pytest.mark.parametrize(
    "text",
    [
        "", "hello", PREFIX, WHOLE[:-1], WHOLE + "A", WHOLE + "é", WHOLE[:30] + " " + WHOLE[30:], "x" + WHOLE,
        PREFIX + "A" * TEXT_MAX, made_of(None), made_of([]), made_of({"a": 1}),
        made_of([[], FINGERPRINT, "id", "secret"]),
        made_of(["host", FINGERPRINT, "id", "secret"]),
        made_of([["host"] * (ADDRESSES_MAX + 1), FINGERPRINT, "id", "secret"]),
        made_of([[7], FINGERPRINT, "id", "secret"]),
        made_of([["a b"], FINGERPRINT, "id", "secret"]),
        made_of([["host"], FINGERPRINT[:-2], "id", "secret"]),
        made_of([["host"], 5, "id", "secret"]),
        made_of([["host"], FINGERPRINT, 5, "secret"]),
        made_of([["host"], FINGERPRINT, "id", "se\ncret"]),
        made_of([["host"], FINGERPRINT, "id", ""]),
        PREFIX + base64.urlsafe_b64encode(b"[" * 2000).decode().rstrip("="),
    ],
)  # fmt: skip
def test_what_is_no_whole_code_is_a_sentence(text: str) -> None:
    with pytest.raises(BadInput, match=r"^(this is not a join code|the join code is damaged)"):
        decode(text)


@given(st.text(max_size=200))
def test_no_word_is_more_than_refused(text: str) -> None:
    with pytest.raises(BadInput):
        decode(PREFIX + text)
