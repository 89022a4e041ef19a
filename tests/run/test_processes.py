from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.run.harness import eventually

from grassq.run import processes

Start = Callable[..., "subprocess.Popen[bytes]"]

LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall(60, 0)  # ends this thread, not the process
"""

#: Forbids system calls as the filter of a container does, with EPERM; then signals a process as a shim does.
FILTERED = """
import ctypes, struct, subprocess, sys
from grassq.run import processes
ALLOW, WITH_EPERM, LOAD_NUMBER, IF_EQUAL, RETURN = 0x7FFF0000, 0x50001, 0x20, 0x15, 0x06
rules = [(LOAD_NUMBER, 0, 0, 0)]
for number in map(int, sys.argv[1:]):
    rules += [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, WITH_EPERM)]
rules.append((RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HP", len(rules), ctypes.addressof(code)))
processes.checked(processes.libc.prctl(38, 1, 0, 0, 0))  # no new privileges: a user may filter only itself
processes.checked(processes.libc.prctl(22, 2, ctypes.byref(program), 0, 0))
child = subprocess.Popen(["sleep", "60"])
ticks = processes.birth_ticks(child.pid)
print(processes.signal_verified(child.pid, ticks + 1, 9), processes.signal_verified(child.pid, ticks, 15), child.wait())
print(processes.signal_verified(child.pid, ticks, 15))
"""
#: The numbers of pidfd_open and pidfd_send_signal, on every kind of processor.
PIDFD_OPEN, PIDFD_SEND_SIGNAL = "434", "424"


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*argv: str, session: bool = False, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv, start_new_session=session, env=env, stdout=subprocess.DEVNULL))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def identity(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    return process.pid, processes.birth_ticks(process.pid) or 0


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_a_process_is_alive_until_it_ends_and_a_zombie_is_not(start: Start) -> None:
    process = start("sleep", "60")
    me = identity(process)
    assert processes.is_alive(*me)
    process.kill()
    eventually(lambda: not processes.is_alive(*me), "a zombie is dead")
    assert processes.birth_ticks(process.pid) == me[1]
    process.wait()
    assert processes.birth_ticks(process.pid) is None


def test_a_process_whose_first_thread_ended_is_alive(start: Start) -> None:
    process = start(sys.executable, "-I", "-S", "-c", LEADERLESS)
    stat = Path(f"/proc/{process.pid}/stat")
    eventually(lambda: ") Z " in stat.read_text(), "its first thread ended")
    assert processes.is_alive(*identity(process))
    assert processes.signal_verified(*identity(process), signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_a_name_full_of_brackets_and_spaces_is_read_right(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o700)
    process = start(str(program), "60")
    eventually(lambda: b"a) R 1" in Path(f"/proc/{process.pid}/stat").read_bytes(), "the program runs")
    assert identity(process) in processes.descendants(os.getpid())


def test_a_reused_pid_is_never_signalled(start: Start) -> None:
    stranger = start("sleep", "60")
    pid, ticks = identity(stranger)
    assert not processes.signal_verified(pid, ticks - 1, signal.SIGKILL)
    assert processes.open_verified(pid, ticks + 1) is None
    assert processes.signal_all([(pid, ticks + 1)], signal.SIGKILL) == 0
    assert processes.is_alive(pid, ticks)
    assert processes.members((pid, ticks - 1), [b"GRASS_JOB_ID=-1"]) == []


def test_nobody_is_signalled_when_the_process_is_gone(start: Start) -> None:
    process = start("true")
    pid, ticks = identity(process)
    process.wait()
    assert not processes.signal_verified(pid, ticks, signal.SIGTERM)


@pytest.mark.parametrize("forbidden", [[], [PIDFD_OPEN], [PIDFD_SEND_SIGNAL], [PIDFD_OPEN, PIDFD_SEND_SIGNAL]])
def test_a_process_is_signalled_also_where_a_container_forbids_pidfds(forbidden: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", FILTERED, *forbidden], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["False", "True", "-15", "False"], "")


def test_descendants_are_children_and_grandchildren(start: Start) -> None:
    parent = start("sh", "-c", "sh -c 'sleep 60; :'; :")
    found = eventually(lambda: len(processes.descendants(parent.pid)) == 2, "both are there")
    assert found
    assert identity(parent) not in processes.descendants(parent.pid)
    assert processes.kill_descendants(parent.pid) == 2
    parent.wait()


def test_members_are_the_tree_the_session_and_the_marked(start: Start) -> None:
    marks = {"GRASS_JOB_ID": "9", "GRASS_ATTEMPT": "2", "GRASS_RUN_DIR": "/x/files"}
    path = {"PATH": os.environ["PATH"]}
    entries = [f"{name}={value}".encode() for name, value in marks.items()]
    # The subshell's child is orphaned and scrubbed: only its session tells whose it is.
    command = start("sh", "-c", "(env -i sleep 61 &); exec sleep 60", session=True, env=path)
    marked = start("sleep", "60", env=path | marks)
    other = start("sleep", "60", env=path | marks | {"GRASS_ATTEMPT": "3"})

    def three_sleepers() -> list[tuple[int, int]] | None:
        found = processes.members(identity(command), entries)
        return found if [name_of(pid) for pid, _ in found] == ["sleep"] * 3 else None

    found = eventually(three_sleepers, "all three are found")
    assert {identity(command), identity(marked)} <= set(found)
    assert identity(other) not in found
    assert processes.signal_all(found, signal.SIGKILL) == 3


def test_the_session_of_a_command_that_is_gone_is_left_alone(start: Start) -> None:
    predecessor = start("sleep", "60", session=True)
    pid, ticks = identity(predecessor)
    assert processes.members((pid, ticks + 1), [b"GRASS_JOB_ID=-1"]) == []
