"""The ends of a connection by ssh: processes that are killed or stopped on both sides, and nothing that is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.world import eventually
from tests.machines.own_sshd import SSHD, OwnSshd, below, has_ended, serving

from grassq.machines.ssh.control_folder import ControlFolder
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.master import Master
from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.transport import LinkLost

pytestmark = pytest.mark.skipif(SSHD is None, reason="openssh-server is not installed")

#: A deadline that a test waits for, and one that no test reaches.
SOON_S = 0.5
LONG_S = 60.0

#: Connects, says so, and waits: a daemon that will be killed.
DAEMON = """
import sys, signal
from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.transport import SshTransport
transport = SshTransport(SshTarget("own"), sys.argv[1], program=sys.argv[2])
transport.connect()
stream = transport.open("cat")
print("connected", flush=True)
signal.pause()
"""


#: An ssh that closes its control socket before it says why, as OpenSSH does where a server closes the connection.
LATE = """
import socket, sys, time
sys.path.insert(0, sys.argv[2])
from fake_ssh import HELLO, VERSION, receive, send
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
line, _ = listener.accept()
send(line, HELLO, VERSION)
receive(line)
line.close()
time.sleep(0.2)
sys.stderr.write("closed by remote host\\n")
"""


@pytest.fixture
def server() -> Iterator[OwnSshd]:
    # A short path, below which control sockets fit; the folders of tests are deep.
    with tempfile.TemporaryDirectory(prefix="grass-", dir="/tmp") as folder, serving(Path(folder)) as server:
        yield server


@contextmanager
def connected(server: OwnSshd, *, open_s: float = LONG_S) -> Iterator[SshTransport]:
    far = SshTransport(server.target, str(server.folder / "control"), program=server.program, open_s=open_s)
    far.connect()
    try:
        yield far
    finally:
        far.close()


def works(far: SshTransport) -> None:
    """Start a command and read its answer."""
    stream = far.open("echo in")
    assert stream.read_line(100, LONG_S) == b"in"
    assert stream.finish(LONG_S) == 0
    stream.close()


def clients(server: OwnSshd) -> dict[int, str]:
    """Return the processes of ssh that read the server's client configuration, and their supervisors."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                words = (each / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"{server.folder}/" in words and "/control/" in words and "python" not in words:
                found[int(each.name)] = words
    return found


def ssh_pid(server: OwnSshd) -> int:
    """Return the one ssh process."""
    (pid,) = [pid for pid, words in clients(server).items() if words.startswith("ssh\0")]
    return pid


def test_a_killed_ssh_process_is_noticed_at_once_and_nothing_logs_in_again(server: OwnSshd) -> None:
    with connected(server) as far:
        stream = far.open("cat")
        os.kill(ssh_pid(server), signal.SIGKILL)
        assert stream.read_some(10, LONG_S) == b""
        with pytest.raises(LinkLost, match="has ended"):
            far.open("echo in")
        with pytest.raises(LinkLost, match="has ended"):
            far.check()
        stream.close()
    assert server.logins == server.tries == 1
    assert clients(server) == {}


def test_a_session_that_the_server_kills_ends_the_connection_with_a_reason(server: OwnSshd) -> None:
    with connected(server) as far:
        stream = far.open("cat")
        for pid in server.sessions():
            os.kill(pid, signal.SIGKILL)
        assert stream.read_some(10, LONG_S) == b""
        stream.close()
        eventually(lambda: has_ended(far), "the end is noticed")
        with pytest.raises(LinkLost, match=r"has ended: \S"):
            far.check()


def test_the_reason_of_an_end_is_waited_for_a_moment(tmp_path: Path) -> None:
    folder = ControlFolder(str(tmp_path / "control"))
    master = Master([sys.executable, "-c", LATE, folder.socket, str(Path(__file__).parent)], folder)
    try:
        master.wait_for_login(SshTarget("own"), LONG_S)
        eventually(lambda: master.has_ended, "the end is noticed")
        assert master.last_words == "closed by remote host"
    finally:
        master.end()


def test_a_server_that_stops_answering_is_given_up_at_our_own_deadlines(server: OwnSshd) -> None:
    with connected(server, open_s=SOON_S) as far:
        stream = far.open("cat")
        stopped = server.sessions()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(LinkLost, match="does not answer"):
            far.open("echo in")
        stream.write(b"anybody there\n", LONG_S)
        with pytest.raises(LinkLost, match="does not answer"):
            stream.read_line(100, SOON_S)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        stream.close()


def test_an_ssh_process_that_is_stopped_is_given_up_and_ended(server: OwnSshd) -> None:
    with connected(server, open_s=SOON_S) as far:
        stream = far.open("cat")
        os.kill(ssh_pid(server), signal.SIGSTOP)
        with pytest.raises(LinkLost, match="does not answer"):
            far.open("echo in")
        with pytest.raises(LinkLost, match="does not answer"):
            stream.write(bytes(1 << 20), SOON_S)
        stream.close()
    assert clients(server) == {}


def test_a_transport_connects_again_after_every_end(server: OwnSshd) -> None:
    with connected(server) as far:
        os.kill(ssh_pid(server), signal.SIGKILL)
        eventually(lambda: has_ended(far), "the end is noticed")
        far.connect()
        works(far)
        far.connect()
        works(far)
        assert len([words for words in clients(server).values() if words.startswith("ssh\0")]) == 1


def test_an_ssh_process_that_goes_to_the_background_by_its_configuration_is_ended_too(server: OwnSshd) -> None:
    config = server.folder / "config"
    config.write_text("ForkAfterAuthentication yes\n" + config.read_text())
    with connected(server) as far:
        works(far)
        assert os.getsid(ssh_pid(server)) == ssh_pid(server)
    eventually(lambda: not clients(server), "ssh has ended")


def test_what_is_not_connected_is_a_lost_link(server: OwnSshd) -> None:
    far = SshTransport(server.target, str(server.folder / "control"), program=server.program)
    with pytest.raises(LinkLost, match="not connected"):
        far.check()
    with pytest.raises(LinkLost, match="not connected"):
        far.open("true")
    far.close()


@contextmanager
def killed_daemon(server: OwnSshd) -> Iterator[int]:
    """Start a process that connects, and yield its number when it has; kill it afterwards."""
    argv = [sys.executable, "-c", DAEMON, str(server.folder / "control"), server.program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as daemon:
        try:
            assert daemon.stdout is not None
            assert daemon.stdout.readline() == b"connected\n"
            yield daemon.pid
        finally:
            daemon.kill()


def test_the_ssh_process_of_a_killed_daemon_ends_with_it(server: OwnSshd) -> None:
    with killed_daemon(server):
        assert clients(server)
    eventually(lambda: not clients(server), "ssh has ended")
    eventually(lambda: not server.sessions(), "the server has noticed")


def test_what_a_killed_daemon_left_is_ended_by_the_next_login(server: OwnSshd) -> None:
    with killed_daemon(server) as daemon:
        left = ssh_pid(server)
        # The shell that would end ssh is killed as well: nothing watches ssh any more.
        os.kill(below(daemon)[0], signal.SIGKILL)
    (folder,) = (server.folder / "control").iterdir()
    with connected(server) as far:
        works(far)
        eventually(lambda: left not in clients(server), "the left ssh has ended")
        assert not folder.exists()
    assert list((server.folder / "control").iterdir()) == []


def test_a_login_leaves_the_logins_of_others_that_live_alone(server: OwnSshd) -> None:
    with killed_daemon(server):
        theirs = ssh_pid(server)
        with connected(server) as far, connected(server) as other:
            works(far)
            works(other)
        assert ssh_pid(server) == theirs
    eventually(lambda: not clients(server), "ssh has ended")


def test_daemons_that_are_killed_one_after_another_leave_one_folder_at_most(server: OwnSshd) -> None:
    for _ in range(3):
        with killed_daemon(server):
            pass
    eventually(lambda: not clients(server), "every ssh has ended")
    assert len(list((server.folder / "control").iterdir())) <= 1
    with connected(server) as far:
        works(far)
    assert list((server.folder / "control").iterdir()) == []


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_thirty_connections_leave_no_process_socket_descriptor_or_thread(server: OwnSshd) -> None:
    before = descriptors(), threading.active_count(), len(below(os.getpid()))
    for number in range(30):
        with connected(server) as far:
            stream = far.open("cat")
            if number % 3 == 0:
                stream.close()
            elif number % 3 == 1:
                far.close()
                stream.close()
            else:
                assert stream.finish(LONG_S) == 0
                stream.close()
    assert clients(server) == {}
    assert list((server.folder / "control").iterdir()) == []
    assert (descriptors(), threading.active_count(), len(below(os.getpid()))) == before


def test_failed_logins_leave_nothing(server: OwnSshd) -> None:
    server.stop()
    before = descriptors()
    for _ in range(5):
        far = SshTransport(server.target, str(server.folder / "control"), program=server.program)
        with pytest.raises(LoginFailed, match="Connection refused"):
            far.connect()
        with pytest.raises(LinkLost, match="not connected"):
            far.check()
    assert descriptors() == before
    assert clients(server) == {}
    assert list((server.folder / "control").iterdir()) == []


def test_sessions_that_were_just_closed_here_leave_room_at_the_server_for_the_next(server: OwnSshd) -> None:
    with connected(server) as far:
        for _ in range(20):
            far.open("cat").close()
        works(far)


def test_threads_open_sessions_side_by_side(server: OwnSshd) -> None:
    with connected(server) as far:
        failures: list[BaseException] = []

        def use() -> None:
            try:
                for _ in range(5):
                    works(far)
            except BaseException as error:  # the thread of a test
                failures.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
    assert server.logins == 1
