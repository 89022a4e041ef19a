"""Machines as the referee sees them: who holds what, which choices a request has, and an error when one is overfilled.

Separate from `grassq.core.resources.ledger`: what judges a schedule must not share the mistakes of what made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from grassq.core.resources.amounts import ONE, Allocation, Request
from grassq.core.resources.capacity import Capacity, Devices, Pool
from grassq.core.syntax.resource_names import VRAM

GPU = "gpu"


class Overfilled(Exception):
    """A schedule gives away what is not there."""


class Card:
    """One device: what is taken of it."""

    __slots__ = ("holders", "id", "memory", "used", "used_memory", "whole")

    def __init__(self, id: str, memory: int) -> None:
        self.id = id
        self.memory = memory
        self.used = self.used_memory = self.holders = 0
        #: Somebody has all of it, memory included.
        self.whole = False

    def copy(self) -> Card:
        """A card to try things on."""
        other = Card(self.id, self.memory)
        other.used, other.used_memory, other.holders, other.whole = (
            self.used,
            self.used_memory,
            self.holders,
            self.whole,
        )
        return other

    def state(self) -> tuple[int, ...]:
        """What matters of it: cards in the same state can stand in for each other."""
        return (self.memory, self.used, self.used_memory, self.holders, self.whole)

    def takes(self, amount: int, memory: int) -> bool:
        """Whether one more job can have so much of it."""
        if self.whole or self.used_memory + memory > self.memory or self.used + amount > ONE:
            return False
        return amount < ONE or not self.holders

    def lack(self, amount: int, memory: int) -> int:
        """How much of what one job needs of it is missing, and how much of the memory, each in millionths."""
        left = 0 if self.whole else ONE - self.used
        there = min(amount, left if not self.holders else min(left, ONE - 1))
        missing = (amount - there) * ONE // amount if amount else 0
        left_memory = 0 if self.whole else self.memory - self.used_memory
        return missing + ((memory - min(memory, left_memory)) * ONE // memory if memory else 0)


class Machine:
    """A machine with devices worth 1 each and pools."""

    def __init__(self, name: str, capacity: Capacity) -> None:
        self.name = name
        self.capacity = capacity
        supply = capacity.get(GPU)
        devices = supply.devices if isinstance(supply, Devices) else ()
        assert all(device.worth == ONE for device in devices), "the referee knows only devices worth 1"
        self.cards = [Card(device.id, device.vram) for device in devices]
        self.pools = {name: supply.amount for name, supply in capacity.items() if isinstance(supply, Pool)}
        self.free = dict(self.pools)

    def copy(self) -> Machine:
        """A machine to try things on."""
        other = Machine.__new__(Machine)
        other.name, other.capacity, other.pools = self.name, self.capacity, self.pools
        other.cards, other.free = [card.copy() for card in self.cards], dict(self.free)
        return other

    def empty(self) -> Machine:
        """The same machine with nobody on it."""
        return Machine(self.name, self.capacity)

    def take(self, allocation: Allocation) -> None:
        """A job starts with this; every rule is looked at again."""
        for card, amount, memory in self._held(allocation):
            if not card.takes(amount, memory):
                raise Overfilled(f"{self.name}: card {card.id} has no room for {amount} and {memory} of memory")
            card.used += amount
            card.used_memory += memory
            card.holders += 1
            card.whole = amount == ONE
        for name, amount in _pools(allocation):
            if self.free.get(name, 0) < amount:
                raise Overfilled(f"{self.name}: {amount} {name} taken, {self.free.get(name, 0)} free")
            self.free[name] -= amount

    def give(self, allocation: Allocation) -> None:
        """A job has ended."""
        for card, amount, memory in self._held(allocation):
            card.used -= amount
            card.used_memory -= memory
            card.holders -= 1
            card.whole = False
        for name, amount in _pools(allocation):
            self.free[name] += amount

    def _held(self, allocation: Allocation) -> Iterator[tuple[Card, int, int]]:
        amounts, memory = allocation.get(GPU, {}), allocation.get(VRAM, {})
        assert isinstance(amounts, dict) and isinstance(memory, dict)
        known = {card.id: card for card in self.cards}
        for id in amounts.keys() | memory.keys():
            if id not in known:
                raise Overfilled(f"{self.name} has no card {id}")
            yield known[id], amounts.get(id, 0), memory.get(id, 0)

    def choices(self, request: Request) -> Iterator[Allocation]:
        """Every way to give a request its devices now; of cards in the same state only one is tried."""
        asked = dict(request)
        memory, amount = asked.pop(VRAM, 0), asked.pop(GPU, 0)
        if any(self.free.get(name, 0) < need for name, need in asked.items()):
            return
        wholes, part = divmod(amount, ONE)
        if not part and memory and not wholes:
            for card in _distinct(card for card in self.cards if card.takes(0, memory)):
                yield {**asked, VRAM: {card.id: memory}}
            return
        able = [card for card in self.cards if card.takes(ONE, memory)]
        seen = set()
        for chosen in combinations(able, wholes):
            if (state := tuple(sorted(card.state() for card in chosen))) in seen:
                continue
            seen.add(state)
            held = {card.id: ONE for card in chosen}
            rest = [card for card in self.cards if card.id not in held and card.takes(part, memory)]
            for ids in [{**held, card.id: part} for card in _distinct(rest)] if part else [held]:
                yield _allocation(asked, ids, memory)

    def pick(self, request: Request, *, thrifty: bool = False) -> Allocation | None:
        """The devices a request would get, or None: parts go where least is left.

        Whole devices are taken in order of their ids, or by a thrifty policy those with the least memory that serves.
        """
        asked = dict(request)
        memory, amount = asked.pop(VRAM, 0), asked.pop(GPU, 0)
        if any(self.free.get(name, 0) < need for name, need in asked.items()):
            return None
        wholes, part = divmod(amount, ONE)
        if memory and not amount:
            able = [card for card in self.cards if card.takes(0, memory)]
            best = min(able, key=lambda card: card.memory - card.used_memory, default=None)
            return None if best is None else {**asked, VRAM: {best.id: memory}}
        able = [card for card in self.cards if card.takes(ONE, memory)] if wholes else []
        if thrifty:
            able.sort(key=lambda card: card.memory)
        if len(able) < wholes:
            return None
        held = {card.id: ONE for card in able[:wholes]}
        if part:
            rest = [card for card in self.cards if card.id not in held and card.takes(part, memory)]
            if not rest:
                return None
            tight = min(rest, key=lambda card: (-card.used, card.holders == 0, card.memory if thrifty else 0))
            held[tight.id] = part
        return _allocation(asked, held, memory)

    def lack(self, request: Request) -> int | None:
        """How much of a request is missing here, in millionths of what is asked; None if it could never run here.

        Of devices, so many as it needs are looked at, those with most left; one that somebody holds is never all there.
        """
        if self.empty().pick(request) is None:
            return None
        asked = dict(request)
        memory, amount = asked.pop(VRAM, 0), asked.pop(GPU, 0)
        missing = sum((need - min(need, self.free[name])) * ONE // need for name, need in asked.items())
        wholes, part = divmod(amount, ONE)
        needs = [ONE] * wholes + ([part] if part or (memory and not wholes) else [])
        rest = [card for card in self.cards if card.memory >= memory]
        for need in needs:
            lack, card = min(((card.lack(need, memory), card) for card in rest), key=lambda each: each[0])
            rest.remove(card)
            missing += lack // len(needs)
        return missing

    def idle_share(self) -> float:
        """How much of it is free, as a mean over its resources."""
        shares = [self.free[name] / amount for name, amount in self.pools.items() if amount]
        if self.cards:
            shares.append(1 - sum(card.used for card in self.cards) / (ONE * len(self.cards)))
            memory = sum(card.memory for card in self.cards)
            shares.append(1 - sum(card.used_memory for card in self.cards) / memory if memory else 1.0)
        return sum(shares) / len(shares)


def _distinct(cards: Iterable[Card]) -> list[Card]:
    return [*{card.state(): card for card in cards}.values()]


def _allocation(pools: Mapping[str, int], ids: dict[str, int], memory: int) -> Allocation:
    allocation: Allocation = dict(pools)
    if ids:
        allocation[GPU] = ids
    if memory:
        allocation[VRAM] = dict.fromkeys(ids, memory)
    return allocation


def _pools(allocation: Allocation) -> Iterator[tuple[str, int]]:
    return ((name, held) for name, held in allocation.items() if not isinstance(held, dict))


def gpus_held(allocation: Allocation) -> int:
    """How much of devices an allocation holds, in millionths of one."""
    held = allocation.get(GPU, {})
    assert isinstance(held, dict)
    return sum(held.values())
