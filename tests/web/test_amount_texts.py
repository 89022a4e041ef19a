"""Amounts typed as JSON5: the text is read as JSON5 says, and no text keeps the broker from answering others."""

from __future__ import annotations

import asyncio
import time

import json5
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.errors import BadInput
from grassq.web.submit.json5_text import TEXT_MAX, parse_object

HOSTILE = {
    "long list": "{cpu:[" + "1," * 29_000 + "]}",
    "many names": "{" + ",".join(f"n{n}:1" for n in range(1000)) + "}",
    "deep": "{cpu:" + "[" * 1500 + "]" * 1500 + "}",
    "deep JSON": '{"cpu":' + "[" * 1500 + "]" * 1500 + "}",
    "deep and long": "{cpu:" + "[" * 30_000 + "]" * 30_000 + "}",
    "hexadecimal": "{cpu:0x" + "f" * 60_000 + "}",
    "shorter hexadecimal": "{cpu:0x" + "f" * 4000 + "}",
    "digits": "{cpu:" + "9" * 4000 + "}",
    "digits JSON": '{"cpu":' + "9" * 4000 + "}",
    "open text": "{cpu:'" + "\\'" * 1500,
    "open comment": "{cpu:1 /*" + "/*" * 1500,
}


@pytest.mark.parametrize("local", [True, False], ids=["unix socket", "TCP"])
def test_a_hostile_text_is_refused_in_words_and_delays_nobody(local: bool) -> None:
    async def test(fixture: BrokerFixture) -> None:
        submit, read = await fixture.token("submit", bare=True), await fixture.token("read")
        some = asyncio.Semaphore(6)  # the listener's backlog is 8

        async def attack(what: str, text: str) -> None:
            body = {"words": ["--require", text, "default", "true"], "key": key()}
            async with some:
                answer = await fixture.ask("POST", "/v1/enqueue", body, token=None if local else submit, local=local)
            assert (answer.status, answer.headers["grass-exit"]) == (200, "2"), (what, answer)
            assert answer.body.startswith(b"grass: ") and answer.body.count(b"\n") == 1, (what, answer.body)

        attacks = [asyncio.create_task(attack(what, text)) for what, text in HOSTILE.items() for _ in range(2)]
        worst = 0.0
        while not all(each.done() for each in attacks):
            began = time.monotonic()
            assert (await fixture.ask("GET", "/v1/show", token=read)).status == 200
            worst = max(worst, time.monotonic() - began)
        await asyncio.gather(*attacks)
        assert worst < 0.5

    play(test)


def test_a_request_and_a_capacity_have_64_names_at_most() -> None:
    async def test(fixture: BrokerFixture) -> None:
        names = {f"n{n}": 1 for n in range(65)}
        body = {"jobs": [{"command": ["true"], "request": names}], "key": key()}
        answer = await fixture.ask("POST", "/v1/submit", body, local=True)
        assert answer.status == 400 and "64" in answer.words
        words = ["q", "--capacity", str(names)]
        answer = await fixture.ask("POST", "/v1/create-queue", {"words": words, "key": key()}, local=True)
        assert answer.status == 400 and "64" in answer.words

    play(test)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadInput, match="longer than"):
        parse_object("{gpu:1" + " " * TEXT_MAX + "}", "--require")


_values = st.recursive(
    st.one_of(
        st.sampled_from([".5", "5.", "+1", "-0x1F", "0", "1e3", "1.5E-2", "true", "false", "null", "Infinity", "012"]),
        st.text(alphabet="ab'\"\\\n\x7f é\u2028😀", max_size=4).map(lambda text: "'" + text + "'"),
        st.text(alphabet='nu0x1a\\"', max_size=5).map(lambda text: '"' + text + '"'),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda all_: "[" + ",".join(all_) + ",]"),
        st.lists(st.tuples(st.sampled_from(["a", "$b", "_c", "'d'", "null", "2", "é"]), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=6,
)
_blanks = st.sampled_from(["", " ", "\n", "\t/* one */", "// two\n", "\u00a0", "\ufeff"])


@given(st.tuples(_blanks, st.sampled_from(["gpu", "'2'", "2", ""]), _blanks, _values, _blanks))
def test_a_text_means_what_the_reference_reader_says(parts: tuple[str, ...]) -> None:
    before, name, between, value, after = parts
    text = f"{before}{{{name}{between}: {value}{after}}}"

    def no_constant(text: str) -> object:
        raise ValueError(text)

    try:
        expected = json5.loads(text, allow_duplicate_keys=False, parse_constant=no_constant)
    except ValueError:
        with pytest.raises(BadInput):
            parse_object(text, "--require")
    else:
        assert parse_object(text, "--require") == expected
