"""Leases on the far side: an attempt that may be started elsewhere ends in time by itself."""

from __future__ import annotations

import pytest
from tests.machines.far_site import FarSite

from grassq.run.lease_timer import boottime
from grassq.run.rundir import Lease


def test_an_attempt_ends_when_its_lease_is_over(far_site: FarSite) -> None:
    length_s = 4.0
    until = boottime() + 2.0
    far_site.begin(1, "/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done", lease=Lease(until, length_s))
    record = far_site.ended(1)
    assert record["outcome"] == "lease_ended" and record["signal"] == 9
    assert boottime() >= until and far_site.left() == []


def test_a_renewed_lease_lets_an_attempt_run_on(far_site: FarSite) -> None:
    boot = far_site.far.greeting.boot
    first, second = Lease(boottime() + 1.5, 2.0), Lease(boottime() + 300.0, 400.0)
    far_site.begin(1, "/bin/sh", "-c", "sleep 3; echo whole", lease=first)
    far_site.far.write_lease((1, 1), second, boot)
    assert far_site.far.read_lease((1, 1), boot) == second
    assert far_site.far.read_lease((1, 1), "another boot") is None
    assert far_site.ended(1)["outcome"] == "exited" and far_site.log(1) == b"whole\n"


@pytest.mark.parametrize("lease", [Lease(1.0, 60.0), Lease(0.001, 0.00001)], ids=["over", "tiny"])
def test_an_attempt_whose_lease_is_over_never_starts(far_site: FarSite, lease: Lease) -> None:
    record = far_site.run(1, "echo", "late", lease=lease)
    assert (record["outcome"], record["code"], record["signal"]) == ("lease_ended", None, None)
    assert far_site.log(1) == b""


def test_an_attempt_without_a_readable_lease_never_starts(far_site: FarSite) -> None:
    for job, content in enumerate((b"", b"nonsense", b'{"v": 1, "until": 1e300, "length_s": 5, "boot": "other"}'), 1):
        launch = far_site.launch(job, "echo", "late", lease=True)
        folder = far_site.folder(job)
        folder.mkdir(parents=True)
        (folder / "lease").write_bytes(content)
        assert far_site.far.start((job, 1), launch, None)
        assert far_site.ended(job)["outcome"] == "lease_ended" and far_site.log(job) == b""


def test_a_lease_of_another_boot_does_not_count(far_site: FarSite) -> None:
    far_site.begin(1, "sleep", "600", lease=Lease(boottime() + 1.0, 1.5))
    far_site.far.write_lease((1, 1), Lease(boottime() + 300.0, 400.0), "another-boot")
    assert far_site.ended(1)["outcome"] == "lease_ended"
