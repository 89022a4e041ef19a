"""What is written on the wire without `json` is what `json` reads."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from grassq.home import Sender
from grassq.net import encoding
from grassq.net.client import compact

WORDS = st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))


def meaning(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    assert isinstance(value, dict)
    return base64.b64decode(value["b64"])


@given(WORDS)
def test_any_bytes_come_back(word: bytes) -> None:
    assert meaning(json.loads(encoding.word(word))) == word
    assert json.loads(encoding.word(word)) == encoding.word_value(word)


@given(st.lists(WORDS), WORDS, st.dictionaries(WORDS, WORDS))
def test_a_whole_enqueue_comes_back(words: list[bytes], cwd: bytes, env: dict[bytes, bytes]) -> None:
    body = json.loads(encoding.enqueue_body(words, Sender(cwd, env, 0o22), "ab" * 16, "run"))
    assert [meaning(word) for word in body["words"]] == words
    assert meaning(body["cwd"]) == cwd
    assert {meaning(name): meaning(value) for name, value in body["env"]} == env
    assert (body["umask"], body["key"], body["verb"]) == (18, "ab" * 16, "run")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_a_query_comes_back(values: list[str]) -> None:
    text = encoding.query([("selector", value) for value in values])
    assert text.isascii()
    assert " " not in text
    assert [value for _, value in parse_qsl(text[1:], keep_blank_values=True)] == values


@given(st.sets(st.integers(1, 500), min_size=1), st.integers(10, 60))
def test_compacted_ids_name_exactly_the_same_jobs(ids: set[int], limit: int) -> None:
    selectors = compact(ids, limit=limit)
    named: set[int] = set()
    for part in ",".join(selectors).split(","):
        first, _, last = part.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == ids
    assert all(len(selector) <= limit for selector in selectors)


def test_two_keys_differ() -> None:
    assert encoding.new_key() != encoding.new_key()
    assert len(encoding.new_key()) == 32
