"""What is killed, filled or forged on the far side: nothing runs twice, and no end is invented."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.machines.fake_tools import put_tool
from tests.machines.far_site import SHELLS, FarSite
from tests.run.harness import eventually

from grassq.machines.transport import LinkLost
from grassq.run import processes
from grassq.run.rundir import RunDirState

#: The shells that look for every tool on the PATH, where a test may put another one; busybox has them in itself.
WITH_TOOLS = ("dash", "bash")


@pytest.fixture(params=WITH_TOOLS)
def tool_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FarSite]:
    """A far side without Python, that takes its tools from the folder `bin` first."""
    found = FarSite(tmp_path, request.param)
    yield found
    found.close()


def test_a_killed_serve_is_a_lost_link_and_the_next_one_goes_on(far_site: FarSite) -> None:
    far_site.begin(1, "sleep", "600")
    for pid in serving(far_site):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(LinkLost):
        far_site.far.look((1, 1))
    far_site.far = far_site.connect()
    assert far_site.far.look((1, 1)).shim_alive
    far_site.far.stop((1, 1), 5.0)
    assert far_site.ended(1)["outcome"] == "cancelled"


def test_a_serve_ends_with_its_connection(far_site: FarSite) -> None:
    events = far_site.far.events()
    assert serving(far_site)
    events.close()
    far_site.far.close()
    eventually(lambda: not serving(far_site), "nothing serves any more")


def test_what_a_killed_supervisor_left_is_killed_without_a_grace(far_site: FarSite) -> None:
    found = far_site.begin(1, "/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    assert found.shim is not None and processes.signal_verified(*found.shim, signal.SIGKILL)
    far_site.look_until(1, lambda found: not found.shim_alive)
    assert far_site.far.remove([1], [])[0].why == "something of it still runs"
    far_site.far.stop((1, 1), 0.0)
    far_site.look_until(1, lambda found: not found.members and not found.command_alive)
    assert far_site.far.look((1, 1)).exit is None


@pytest.mark.parametrize("shell", SHELLS)
def test_a_killed_runner_leaves_no_record(tmp_path: Path, shell: str) -> None:
    site = FarSite(tmp_path, shell)
    found = site.begin(1, "sleep", "600")
    os.kill(runner(found), signal.SIGKILL)
    wake(found)
    found = site.look_until(1, lambda found: not found.shim_alive)
    assert found.exit is None and found.command_alive
    site.close()


def test_an_end_that_comes_while_it_is_looked_for_is_recorded(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    looking, go, gate = (site.home / name for name in ("looking", "go", "gate"))
    wait = f"case $3 in */.status) : >{looking}; until [ -e {go} ]; do sleep 0.01; done ;; esac"
    put_tool(tmp_path / "bin", "head", f'/usr/bin/head "$@"; {wait}')
    found = site.begin(1, "/bin/sh", "-c", f"until [ -e {gate} ]; do sleep 0.01; done; exit 7")
    # Only a file is read with a tool, which can be held up.
    (site.folder(1) / ".status").touch()
    wake(found)
    eventually(looking.exists, "the supervisor has looked for the end and found none")
    before = runner(found)
    gate.touch()
    eventually(lambda: processes.start_ticks(before) is None, "the command has ended, and the runner has left")
    go.touch()
    record = site.look_until(1, lambda found: not found.shim_alive).exit
    assert record is not None and record["code"] == 7


def test_where_awk_tells_no_signal_the_shell_does_or_it_is_unknown(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    put_old_awk(tmp_path)
    for job, name in enumerate(("KILL", "TERM", "SEGV", "HUP"), 1):
        record = site.script(job, f"kill -s {name} $$")
        assert (record["code"], record["signal"]) == (None, signal.Signals[f"SIG{name}"]), name
    for job, code in enumerate((0, 128, 137, 143, 147, 255), 11):
        record = site.script(job, f"exit {code}")
        assert (record["code"], record["signal"], record["error"]) == (code, None, None)
    # No shell says anything of these two signals.
    for job, script in enumerate(("kill -s INT $$", "exit 130", "kill -s PIPE $$", "exit 141"), 21):
        record = site.script(job, script)
        assert f"cannot tell exit code {record['code']} from signal {record['code'] - 128}" in record["error"], script


def test_a_shell_that_says_nothing_of_signals_is_not_believed(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    put_old_awk(tmp_path)
    shell = (tmp_path / "bin/sh").rename(tmp_path / "bin/talking-sh")
    put_tool(tmp_path / "bin", "sh", f'exec 2>/dev/null; exec {shell} "$@"')
    for job, script in enumerate(("kill -s KILL $$", "exit 137"), 1):
        record = site.script(job, script)
        assert (record["code"], record["signal"]) == (137, None)
        assert record["error"] == "this machine cannot tell exit code 137 from signal 9"
    assert site.script(3, "exit 255")["error"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose the number of the next process")
def test_a_process_with_the_number_of_a_killed_supervisor_is_not_signalled(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    held, go, gate = (site.home / name for name in ("held", "go", "gate"))
    wait = f"case $* in */.status) : >{held}; until [ -e {go} ]; do sleep 0.01; done ;; esac"
    put_tool(tmp_path / "bin", "mv", f'{wait}; exec /usr/bin/mv "$@"')
    found = site.begin(1, "/bin/sh", "-c", f"until [ -e {gate} ]; do sleep 0.01; done")
    before = runner(found)
    assert found.shim is not None and processes.signal_verified(*found.shim, signal.SIGKILL)
    gate.touch()
    eventually(held.exists, "the runner is about to tell the end")
    with process_of_number(found.shim[0]) as other:
        go.touch()
        eventually(lambda: processes.start_ticks(before) is None, "the runner has left")
        assert other.poll() is None, "it would have been ended by the signal"


def test_a_signal_while_leftovers_end_starts_no_busy_loop(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    napping, looks = site.home / "napping", site.home / "looks"
    # A nap is over only when it is ended.
    put_tool(tmp_path / "bin", "sleep", f'[ "$1" != 0.100 ] || {{ : >{napping}; set 600; }}; exec /usr/bin/sleep "$@"')
    put_tool(tmp_path / "bin", "awk", f'echo >>{looks}; exec /usr/bin/awk "$@"')
    assert site.start(1, "/bin/sh", "-c", "trap '' TERM; sleep 600 & exit 0", leave_grace_s=600.0)
    eventually(napping.exists, "the supervisor waits for what the command has left")
    before = len(looks.read_bytes())
    napping.unlink()
    wake(site.far.look((1, 1)))
    eventually(napping.exists, "it looks again, and waits again")
    for _ in range(50):
        assert site.far.look((1, 1)).shim_alive
    assert before < len(looks.read_bytes()) <= before + 4


def test_a_record_is_synced_where_that_is_possible_for_one_file(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    synced, gate = site.home / "synced", site.home / "gate"
    usage = "[ $1 != --help ] || { echo 'Usage: sync [OPTION] [FILE]...'; exit; }"
    put_tool(tmp_path / "bin", "sync", f'{usage}; echo "$@" >{synced}; until [ -e {gate} ]; do sleep 0.01; done')
    site.script(1, "true")
    record = site.folder(1) / "exit"
    eventually(lambda: synced.exists() and synced.read_text() == f"{record} {record.parent}\n", "the record is synced")
    site.look_until(1, lambda found: not found.shim_alive)  # a disk that hangs holds nobody up
    gate.touch()


def test_nothing_is_synced_where_only_everything_can_be(tmp_path: Path, tool_site: FarSite) -> None:
    site = tool_site
    asked, synced = site.home / "asked", site.home / "synced"
    put_tool(tmp_path / "bin", "sync", f": >{asked}; case $1 in --help) echo 'Usage: sync' ;; *) : >{synced} ;; esac")
    site.script(1, "true")
    eventually(asked.exists, "it was asked what it can do")
    site.look_until(1, lambda found: not found.shim_alive)
    assert site.script(2, "true")["code"] == 0 and not synced.exists()


def test_stops_at_any_moment_of_a_start_end_in_one_record(far_site: FarSite) -> None:
    for job in range(1, 9):
        assert far_site.start(job, "sleep", "600")
        far_site.far.stop((job, 1), 5.0)
    for job in range(1, 9):
        assert far_site.ended(job)["outcome"] == "cancelled"
    assert far_site.left() == []


def test_a_stopped_process_of_a_job_is_ended_too(far_site: FarSite) -> None:
    far_site.begin(1, "/bin/sh", "-c", "sleep 600 & kill -STOP $!; kill -STOP $$")
    far_site.far.stop((1, 1), 5.0)
    assert far_site.ended(1)["outcome"] == "cancelled" and far_site.left() == []


def test_a_tree_that_forks_while_it_is_killed_is_ended(far_site: FarSite) -> None:
    bomb = "f() { trap '' TERM; while :; do sleep 0.02 & wait; done; }; f & f & f & f & f"
    far_site.begin(1, "/bin/sh", "-c", bomb)
    far_site.far.stop((1, 1), 0.2)
    assert far_site.ended(1)["outcome"] == "cancelled"
    assert far_site.left() == []


def test_a_torn_or_forged_record_is_no_end(far_site: FarSite) -> None:
    far_site.script(1, "true")
    record = far_site.folder(1) / "exit"
    whole = record.read_bytes()
    for damaged in (b"", whole[:-5], whole.replace(b'"code": 0', b'"code": 1'), b"\0" * 100_000, whole + whole):
        record.write_bytes(damaged)
        found = far_site.far.look((1, 1))
        assert found.exit is None and found.claimed and not found.command_alive
    record.unlink()
    record.symlink_to("/etc/passwd")
    assert far_site.far.look((1, 1)).exit is None


def test_files_that_a_job_replaced_hold_nobody_up(far_site: FarSite) -> None:
    far_site.begin(1, "/bin/sh", "-c", "exec sleep 600")
    folder = far_site.folder(1)
    for name in ("exit", "lease", "files/result.json"):
        os.mkfifo(folder / name)
    (folder / "log").unlink()
    os.mkfifo(folder / "log")
    found = far_site.far.look((1, 1))
    assert found.command_alive and found.exit is None
    assert far_site.far.read_lease((1, 1), far_site.far.greeting.boot) is None
    assert far_site.far.read(1, 1, "log", 0, 100) == (b"", 0)


def test_a_log_that_shrinks_while_it_is_read_is_no_trouble(far_site: FarSite) -> None:
    far_site.begin(
        1, "/bin/sh", "-c", "while :; do head -c 100000 /dev/zero; : >$GRASS_RUN_DIR/../log; done", leave_grace_s=0.1
    )
    for offset in (0, 5, 4096, 50_000) * 20:
        data, size = far_site.far.read(1, 1, "log", offset, 60_000)
        assert len(data) <= 60_000 and size >= (offset + len(data) if data else 0)
        assert not data.strip(b"\0")


def put_old_awk(folder: Path) -> None:
    """Put an awk in the place of a site's that says of a signal what gawk before 4.2 says: the status, by 256."""
    put_tool(folder / "bin", "awk", 'case $1 in *kill*) echo 0.0351562 ;; *) exec /usr/bin/awk "$@" ;; esac')


@contextmanager
def process_of_number(number: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a number which was another one's before."""
    while True:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
        process = subprocess.Popen(["sleep", "600"])
        try:
            if process.pid == number:
                yield process
                return
        finally:
            process.kill()
            process.wait()


def runner(found: RunDirState) -> int:
    """The process that waits for the command: the parent of the supervisor that has claimed the attempt."""
    assert found.shim is not None
    return int(Path(f"/proc/{found.shim[0]}/stat").read_text().rpartition(")")[2].split()[1])


def wake(found: RunDirState) -> None:
    """Let the supervisor look now: by itself it does so every few seconds."""
    assert found.shim is not None and processes.signal_verified(*found.shim, signal.SIGUSR1)


def serving(site: FarSite) -> list[int]:
    """The processes that serve connections of a site."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(site.far.marker.encode() == word for word in words):
                found.append(int(entry.name))
    return found
