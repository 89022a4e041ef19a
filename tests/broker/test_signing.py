"""Seals on orders: known again after every road an order takes, and by nobody else's key."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import a_spec

from grassq.broker.signing import is_ours, sealed
from grassq.core.messages import Start
from grassq.core.model import Placement
from grassq.worker import stored_order

KEY = b"k" * 32
WHERE = Placement("w", "boot", {"cpu": 1, "gpu": {"1": 5, "0": 5}}, (b"\xff",), b"/d", ((b"Q", b"1"),), 300)
ENV = ((b"A", b"b"), (b"A", b"c"), (b"\xfe", b"\xff"), (b"PATH", b"/bin"))
START = Start(7, 2, replace(a_spec(), grace_s=10), WHERE, ENV, "name", 3)


def test_an_order_is_known_again_from_its_run_dir(tmp_path: Path) -> None:
    arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(sealed(START, KEY)), type=Start)
    env = {b"PATH": b"/bin", b"A": b"c", b"X": b"y"}
    words = [[name.decode(), value.decode()] for name, value in env.items()]
    (tmp_path / "spec.json").write_text(
        json.dumps(
            {"order": stored_order.keep(arrived, stored_order.places(arrived.env, tuple(env.items()))), "env": words}
        )
    )
    recalled = stored_order.recall(str(tmp_path))
    assert recalled == arrived and is_ours(recalled, KEY)


@pytest.mark.parametrize(
    "other",
    [
        replace(START, job=8),
        replace(START, attempt=3),
        replace(START, env=()),
        replace(START, name=None),
        replace(START, checkpoint_of=None),
        replace(START, spec=replace(START.spec, command=(b"steal",))),
        replace(START, spec=replace(START.spec, tries=9)),
        replace(START, placement=replace(WHERE, prefix=())),
    ],
)
def test_no_part_of_an_order_can_be_changed(other: Start) -> None:
    assert not is_ours(replace(other, seal=sealed(START, KEY).seal), KEY)


def test_without_the_key_nothing_is_sealed() -> None:
    assert not is_ours(START, KEY)
    assert not is_ours(sealed(START, b"x" * 32), KEY)
