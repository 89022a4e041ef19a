"""Queues with slots as users meet them: what a line may ask for there, and what `show` and `why` say."""

from __future__ import annotations

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_board, a_request, a_worker, an_offer

from grassq.cli import job_text
from grassq.core.model import Offer, Spec
from grassq.core.planner.workers import in_process
from grassq.core.resources.capacity import DeviceIds
from grassq.core.resources.slots import Slot, limits_of, parse_slots
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.errors import BadInput, Refused
from grassq.web.requests import Submitter, environment_of
from grassq.web.submit import validate
from grassq.web.submit.queue_snapshot import snapshot_of
from grassq.web.submit.validate import DraftBuilder
from grassq.worker import offers

ME = Submitter(b"/", environment_of(((b"PATH", b"/usr/bin:/bin"),)))
SLOTS = parse_slots(["0,1", "2"])
SLOTTED = Offer("q", limits_of(SLOTS), slots=SLOTS)


def spec(line: str, *workers: tuple[Offer, ...]) -> Spec:
    """What a line asks for, where each worker has these queues."""
    infos = [a_worker(f"w{i}", offers=each, gpu=3, cpu=8) for i, each in enumerate(workers)]
    known = snapshot_of(a_board(*infos))
    return DraftBuilder(ME, known, a_request(cpu=1)).read_enqueue([word.encode() for word in line.split()])[1].spec


@pytest.mark.parametrize("amounts", ["--gpu=1", "--cpu 2", "--require {mem:1}", "--gpu=0"])
def test_amounts_are_refused_where_a_job_takes_a_slot(amounts: str) -> None:
    with pytest.raises(BadInput, match="queue 'q' has slots") as refused:
        spec(f"q {amounts} -- true", (SLOTTED,))
    assert refused.value.exit_code == 2
    assert spec("q -- true", (SLOTTED,)).command == (b"true",)


def test_amounts_count_where_one_of_the_workers_has_no_slots() -> None:
    for workers in ([(SLOTTED,), (Offer("q"),)], [(Offer("q"),), (SLOTTED,)]):
        assert spec("q --gpu=1 -- true", *workers).request == a_request(gpu=1)
    with pytest.raises(BadInput, match="slots"):
        spec("q --gpu=1 -- true", (SLOTTED,), (SLOTTED,))


def test_a_job_that_takes_a_slot_may_name_its_devices() -> None:
    assert spec("q -- echo {gpu} {slot} {mem}", (SLOTTED,)).command == (b"echo", b"{gpu}", b"{slot}", b"{mem}")
    with pytest.raises(BadInput, match="no gpu is asked for"):
        spec("plain -- echo {gpu}", (SLOTTED, Offer("plain")))


def test_a_queue_with_slots_is_limited_to_their_devices() -> None:
    offer = validate.read_offer(
        enqueue_syntax.split_create_queue([b"q", b"--slots", b"1,0 2", b"--order=rotate"]), ME, in_process("w")
    )
    assert (offer.limits, offer.order) == ({"gpu": DeviceIds(("0", "1", "2"))}, "rotate")
    assert [slot.name for slot in offer.slots] == ["1,0", "2"]
    assert offers.check(offer, a_worker(gpu=3)) == offers.check(offer, a_worker(cpu=1)) == []
    with pytest.raises(Refused, match="no gpu 2"):
        offers.check(offer, a_worker(gpu=2))
    with pytest.raises(Refused, match="pool"):
        offers.check(offer, a_worker(offers=[an_offer("other", gpu={"pool": 3})]))


def test_show_says_who_is_in_which_slot_and_why_that_none_is_left() -> None:
    fixture = DeciderFixture(a_worker("w", offers=[an_offer(), SLOTTED], gpu=3))
    ids = fixture.submit(*(a_draft("q") for _ in range(3)))
    shown = fixture.do(lambda batch: at_once.show(batch, []))
    assert [queue["order"] for queue in shown["queues"]] == [None, "stack"]
    assert [queue["slots"] for queue in shown["queues"]] == [
        [],
        [{"name": "0,1", "gpu": ["0", "1"], "job": ids[1]}, {"name": "2", "gpu": ["2"], "job": ids[0]}],
    ]
    told = fixture.do(lambda batch: at_once.why(batch, chosen(ids[2])))["jobs"][0]
    assert told["text"] == (
        f"job {ids[2]} (a slot, queue q) waits for slot:\n"
        f"  on w: slot 1 needed, 0 free; held by job {ids[0]}, {ids[1]} (all 2 slots are taken)"
    )


def test_slots_are_named_while_they_are_few() -> None:
    assert job_text.slots([{"name": slot.name} for slot in (*SLOTS, Slot(""))]) == "slots 0,1 2 -"
    assert job_text.slots([]) == "no slot"
    assert job_text.slots([{"name": "0"}] * 9) == "9 slots"
