"""A suspended attempt: every process of it is stopped, whatever becomes of the daemon and of its shim."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.run.harness import Harness, eventually

from grassq.errors import Refused
from grassq.run import processes, rundir
from grassq.run.suspension import notes, order
from grassq.run.suspension.stopped_tree import StoppedTree

#: Children that hide from their parent, and one that counts in a file.
TREE = "setsid sh -c 'while :; do echo x >>{count}; sleep 0.01; done' & (env -i setsid sleep 600 &)\necho ready\nwait"


def states(shim: int) -> set[str]:
    """The states of all processes below a shim, without zombies."""
    found = set()
    for pid, _ in processes.descendants(shim):
        found.add(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0])
    return found


def is_still(shim: int) -> bool:
    """Whether nothing below a shim runs: a parent that waits for a child of vfork is held up by the kernel."""
    return "T" in states(shim) and states(shim) <= {"T", "D"}


def give(harness: Harness, path: str, number: int, *, stop: bool) -> None:
    """Give an order until it is done, as a worker does."""
    eventually(lambda: order.give(path, harness.boot, number, stop), "the order is done")


def test_a_whole_tree_stands_still_and_goes_on(harness: Harness, tmp_path: Path) -> None:
    count = tmp_path / "count"
    path, started = harness.start("/bin/sh", "-c", TREE.format(count=count))
    eventually(lambda: count.exists() and len(processes.descendants(started["shim"])) >= 4, "the tree stands")
    give(harness, path, 5, stop=True)
    assert is_still(started["shim"])
    before = count.read_bytes()
    assert harness.until("suspended", path) | {"shim": 0} == (
        {"event": "suspended", "job": 1, "attempt": 1, "number": 5, "stop": True, "shim": 0}
    )
    assert not order.give(path, harness.boot, 4, False), "an order with a lower number is outdated"
    assert rundir.look(path, harness.boot).suspension.order == (5, True)
    assert is_still(started["shim"]) and count.read_bytes() == before
    give(harness, path, 6, stop=False)
    eventually(lambda: count.read_bytes() != before, "it goes on")
    assert rundir.look(path, harness.boot).suspension.order == (6, False)
    assert not order.give(path, harness.boot, 5, True), "a late repetition stops nothing"
    assert "T" not in states(started["shim"])
    harness.stop(path, 0.0)
    assert harness.ended(path)["outcome"] == "cancelled"
    assert not order.give(path, harness.boot, 7, True), "what has ended cannot be stopped"
    assert harness.left() == []


def test_a_tree_that_keeps_forking_is_stopped(harness: Harness) -> None:
    bomb = (
        "import os, time\nend = time.monotonic() + 30\nwhile time.monotonic() < end:\n    if os.fork(): os._exit(0)\n"
    )
    wide = (
        "import os, time\nfor _ in range(4):\n    os.fork()\nwhile True:\n    os.fork() or os._exit(0)\n    os.wait()\n"
    )
    for script in (bomb, wide):
        parent = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {script!r}]);"
        path, started = harness.start(sys.executable, "-I", "-S", "-c", f"{parent} import time; time.sleep(600)")
        give(harness, path, 1, stop=True)
        shim = started["shim"]
        assert is_still(shim)
        tree = processes.descendants(shim)
        assert processes.stop_descendants(shim) and processes.descendants(shim) == tree, "and stays as it is"
        harness.stop(path, 0.0)
        harness.ended(path)


def test_a_parent_that_waits_for_a_stopped_child_of_vfork_counts_as_stopped(harness: Harness) -> None:
    # The child is stopped before it runs its program; the kernel holds the parent up meanwhile.
    child = "if not libc.vfork():\n    libc.sleep(2)\n    libc._exit(0)\n"
    script = f"import ctypes\nlibc = ctypes.PyDLL(None)\n{child}libc.sleep(600)"
    path, started = harness.start(sys.executable, "-I", "-S", "-c", script)
    eventually(lambda: "D" in states(started["shim"]), "the parent is held up")
    give(harness, path, 1, stop=True)
    assert states(started["shim"]) == {"T", "D"}
    give(harness, path, 2, stop=False)
    eventually(lambda: "T" not in states(started["shim"]), "both go on")
    harness.stop(path, 0.0)
    harness.ended(path)


def test_a_suspended_job_gets_its_grace_when_it_is_killed(harness: Harness) -> None:
    path, started = harness.start(
        "/bin/sh", "-c", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    )
    eventually(lambda: harness.log(path) == b"ready\n", "it runs")
    give(harness, path, 1, stop=True)
    harness.stop(path, 10.0)
    record = harness.ended(path)
    assert (record["outcome"], record["code"]) == ("cancelled", 3) and harness.log(path).endswith(b"bye\n")
    path, started = harness.start("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
    give(harness, path, 1, stop=True)
    harness.stop(path, 0.1)
    assert harness.ended(path)["signal"] == signal.SIGKILL
    handler = "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'bye'), os._exit(3)))"
    script = f"import os, signal; {handler}; os.write(1, b'ready')\nwhile True: pass"
    path, started = harness.start(sys.executable, "-I", "-S", "-c", script)
    eventually(lambda: harness.log(path) == b"ready", "it runs")
    give(harness, path, 1, stop=True)
    harness.stop(path, 0.0)
    assert harness.ended(path)["signal"] == signal.SIGKILL and harness.log(path) == b"ready", "it never ran again"
    path, started = harness.start("/bin/sleep", "600")
    give(harness, path, 1, stop=True)
    os.kill(started["pid"], signal.SIGKILL)
    record = harness.ended(path)
    assert (record["outcome"], record["signal"]) == ("exited", signal.SIGKILL), "somebody else has killed it"


def test_a_shim_without_a_daemon_obeys_the_next_one(harness: Harness) -> None:
    path, started = harness.start("/bin/sh", "-c", "sleep 0.2; sleep 600")
    # Killed between the order and the signal.
    notes.write(path, notes.ORDER, 3, True)
    os.kill(harness.shim_pool.launcher_pid or 0, signal.SIGKILL)
    harness.close()
    assert "T" not in states(started["shim"])
    give(harness, path, 3, stop=True)
    assert is_still(started["shim"])
    give(harness, path, 4, stop=False)
    assert "T" not in states(started["shim"])
    give(harness, path, 5, stop=True)
    harness.stop(path, 0.0)
    record = eventually(lambda: rundir.read_exit(path), "the end is recorded")
    assert record["outcome"] == "cancelled" and harness.left() == []


def test_what_a_killed_shim_has_left_is_stopped_and_goes_on(harness: Harness, tmp_path: Path) -> None:
    path, started = harness.start("/bin/sh", "-c", "sleep 600 & sleep 600")
    give(harness, path, 1, stop=True)
    os.kill(started["shim"], signal.SIGKILL)
    eventually(lambda: not rundir.look(path, harness.boot).shim_alive, "the shim is gone")
    left = rundir.look(path, harness.boot).members
    assert left and all(processes.is_stopped(*each) for each in left), "they stay as they are"
    assert order.give(path, harness.boot, 2, False)
    eventually(lambda: not any(processes.is_stopped(*each) for each in left), "they go on")
    give(harness, path, 3, stop=True)
    assert all(processes.is_stopped(*each) for each in left)
    processes.signal_all(left, signal.SIGKILL)


def test_a_shim_of_an_earlier_release_is_told_nothing(harness: Harness) -> None:
    path, started = harness.start("/bin/sleep", "600")
    claim = Path(f"{path}/started")
    claim.write_text(claim.read_text().replace(', "suspends": true', ""))
    with pytest.raises(Refused, match="its supervisor is of an earlier release"):
        order.give(path, harness.boot, 1, True)
    assert notes.read(path, notes.ORDER) is None and "T" not in states(started["shim"])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"v": 1}', b'{"v": 2, "number": 3, "stop": true}', b'{"v": 1, "number": true, "stop": true}']
    + [b'{"v": 1, "number": %d, "stop": true}' % number for number in (-1, 0, 1 << 70)],
)
def test_a_damaged_order_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / notes.ORDER).write_bytes(content)
    assert notes.read(str(tmp_path), notes.ORDER) is None


def test_the_seconds_of_a_suspension_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    tree = StoppedTree(str(tmp_path), {"job": 1, "attempt": 1})
    reports: list[dict[str, object]] = []
    for number, stop, after in ((1, True, 10.0), (1, True, 5.0), (2, False, 7.0), (3, True, 1.0)):
        notes.write(str(tmp_path), notes.ORDER, number, stop)
        tree.look()
        # Nothing is below this process but what pytest has started: nothing that may be stopped is looked at.
        assert tree.press(os.getpid(), lambda pid: True, reports.append) is None
        now[0] += after
    assert tree.seconds() == 16.0 and len(reports) == 4
    assert notes.read(str(tmp_path), notes.DONE) == (3, True)
