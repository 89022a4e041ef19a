"""A worker's book of queues: whole at any moment, and limits that make sense on the machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.builders import a_worker, an_offer

from grassq.core.model import OFFERS_MAX, Offer
from grassq.errors import Refused
from grassq.worker import offers
from grassq.worker.offers import OfferFile, Offers

FULL = replace(
    an_offer("exp", gpu=[0, 1], cpu=4, ram={"pool": 5}), prefix=(b"\xff",), cwd=b"/d", env=((b"K", b"\xfe"),)
)


def test_a_new_home_has_a_new_book(tmp_path: Path) -> None:
    assert offers.load(str(tmp_path), "box") == OfferFile("box")


def test_what_is_saved_is_loaded_under_the_name_it_began_with(tmp_path: Path) -> None:
    book = OfferFile("box", (FULL,))
    offers.save(str(tmp_path), book)
    assert offers.load(str(tmp_path), "renamed") == book
    assert [entry.name for entry in tmp_path.iterdir()] == [offers.FILE_NAME]


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 3}', b"\xff\xfe", b"[]"])
def test_a_damaged_book_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / offers.FILE_NAME
    path.write_bytes(content)
    with pytest.raises(Refused, match=r"cannot be read: .*move it away to start afresh"):
        offers.load(str(tmp_path), "box")
    assert path.read_bytes() == content


def test_a_book_that_cannot_be_written_is_refused_and_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    offers.save(str(tmp_path), OfferFile("box"))
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(Refused, match="cannot be written: No space"):
        offers.save(str(tmp_path), OfferFile("box", (FULL,)))
    assert offers.load(str(tmp_path), "x") == OfferFile("box")
    assert [file.name for file in tmp_path.iterdir()] == [offers.FILE_NAME]


def test_a_book_too_large_to_be_read_again_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    offers.save(str(tmp_path), OfferFile("box"))
    with pytest.raises(Refused, match="16 MiB"):
        offers.save(str(tmp_path), OfferFile("box", (Offer("q", cwd=b"/" * offers.FILE_MAX),)))
    assert offers.load(str(tmp_path), "box") == OfferFile("box")


def test_the_default_queue_is_always_there_and_may_be_defined() -> None:
    assert Offers(OfferFile("box")).all == (Offer("default"),)
    own = an_offer("default", gpu=1)
    assert Offers(OfferFile("box", (own,))).all == (own,)


def test_offers_are_replaced_by_name_and_removed_by_name() -> None:
    book = Offers(OfferFile("box"))
    book.put(an_offer("b"))
    book.put(an_offer("a"))
    assert [offer.queue for offer in book.all] == ["default", "a", "b"]
    book.put(FULL)
    book.put(an_offer("exp"))
    assert book.all[3] == an_offer("exp")
    book.remove("a")
    assert [offer.queue for offer in book.all] == ["default", "b", "exp"]


def test_there_is_a_most_of_queues() -> None:
    book = Offers(OfferFile("box", tuple(an_offer(f"q{i}") for i in range(OFFERS_MAX))))
    with pytest.raises(Refused, match="1000 queues already"):
        book.put(an_offer("one-more"))
    book.put(an_offer("q7", gpu=1))
    assert len(book.all) == OFFERS_MAX + 1


BOX = a_worker("box", gpu=2, cpu=8)


def test_limits_the_machine_meets_are_taken_silently() -> None:
    assert offers.check(an_offer("q", gpu=2, cpu=8), BOX) == []
    assert offers.check(an_offer("q", gpu=["1"]), BOX) == []
    assert offers.check(an_offer("q", printer=3, licence={"pool": 5}), BOX) == []


def test_a_limit_above_the_machines_is_noted() -> None:
    (note,) = offers.check(an_offer("q", gpu=4), BOX)
    assert note == "this machine has only 2 gpu, so the limit of 4 has no effect"
    assert "8 cpu, so the limit of 100 has no effect" in offers.check(an_offer("q", cpu=100), BOX)[0]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"gpu": [0, 5]}, "no gpu 5; it has 0, 1"),
        ({"gpu": {"7": 1}}, "no gpu 7"),
        ({"gpu": {"pool": 2}}, "gpu is devices on this machine"),
    ],
)
def test_devices_that_are_not_there_are_refused(limits: dict[str, object], why: str) -> None:
    with pytest.raises(Refused, match=why):
        offers.check(an_offer("q", **limits), BOX)


def test_two_queues_cannot_declare_one_name_as_two_kinds() -> None:
    box = a_worker("box", offers=[an_offer("a", printer=2)])
    assert offers.check(an_offer("b", printer=["0", "x"]), box) == []
    with pytest.raises(Refused, match="another queue declares printer as devices"):
        offers.check(an_offer("b", printer={"pool": 2}), box)


def test_a_queue_may_change_the_kind_of_what_it_alone_declares() -> None:
    box = a_worker("box", offers=[an_offer("a", printer=2)])
    assert offers.check(an_offer("a", printer={"pool": 2}), box) == []
