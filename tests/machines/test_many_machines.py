"""Twenty machines at once: what they cost, and what happens when all connections are lost at the same moment."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.world import eventually
from tests.machines.many import Many

MACHINES = 20
#: What one machine may cost the daemon: descriptors, threads, and MiB of memory.
DESCRIPTORS, THREADS, MIB = 30, 2, 4


def test_all_machines_come_back_after_all_are_lost_at_once_and_nothing_runs_twice(tmp_path: Path) -> None:
    many = Many(tmp_path, MACHINES)
    try:
        many.near.serve()
        before = many.cost()
        many.near.until_connected(many.names)
        connected = many.cost()
        assert connected.descriptors - before.descriptors <= DESCRIPTORS * MACHINES
        assert connected.threads - before.threads <= THREADS * MACHINES
        assert connected.rss_mib - before.rss_mib <= MIB * MACHINES
        ids = many.submit(2, 1)
        many.drop_all()
        eventually(lambda: len(many.near.connected()) < MACHINES, "the loss is noticed")
        many.near.until_connected(many.names)
        assert many.wrong(ids) == []
        # Nothing of the old connections is kept.
        eventually(lambda: many.cost().descriptors <= connected.descriptors + MACHINES, "descriptors are given back")
        assert many.cost().threads <= connected.threads + MACHINES
    finally:
        many.close()
