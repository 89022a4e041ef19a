"""The one ssh process of a machine that is logged in. It ends with the daemon, also when the daemon is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from grassq.core.printable import printable
from grassq.machines.ssh.control_folder import ControlFolder
from grassq.machines.ssh.failures import LoginFailed, login_failure
from grassq.machines.ssh.mux import MuxConnection
from grassq.machines.ssh.target import SshTarget
from grassq.machines.transport import LinkLost

#: The bytes of ssh's stderr that are kept: the last ones.
SAID_KEPT = 16 << 10
#: How often it is looked whether the control socket is there.
LOOK_S = 0.02
#: How long ssh may take to say why a connection has ended.
LAST_WORDS_S = 1.0
#: How long an ssh process has to end after it was asked to.
END_S = 0.5
#: Runs ssh, and ends it at the end of stdin, which the daemon holds open. ssh itself does not read it: it has -N.
#: CONT is for an ssh that was stopped. The shell and what ssh has started are in one process group.
_UNTIL_END_OF_INPUT = (
    '"$@" </dev/null >/dev/null & exec 2>/dev/null; read _; '
    "trap '' TERM; kill -s TERM 0; kill -s CONT 0; wait; kill -s KILL 0"
)


class Master:
    """An ssh process, from its start until it is ended. Any thread may end it."""

    def __init__(self, argv: list[str], folder: ControlFolder) -> None:
        self.control = folder.socket
        self._folder = folder
        self._said = b""
        self._watch: MuxConnection | None = None
        self._is_ended = False
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            ["sh", "-c", _UNTIL_END_OF_INPUT, "sh", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C at the daemon's terminal is not for ssh
            bufsize=0,
        )
        assert self._process.stderr is not None and self._process.stdin is not None
        self._stdin, self._stderr = self._process.stdin, self._process.stderr
        os.set_blocking(self._stderr.fileno(), False)

    def wait_for_login(self, target: SshTarget, within_s: float) -> None:
        """Return when sessions can be asked for; LoginFailed if ssh ends before, or takes longer than this."""
        deadline = time.monotonic() + within_s
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                said = self.last_words or "nothing"
                raise LoginFailed(f"ssh did not log in to {target.shown} within {within_s:g} s; it said: {said}")
            # At its end; also when the user's configuration sends ssh to the background, where it goes on.
            has_closed = not self._hear(LOOK_S)
            if Path(self.control).exists():
                with suppress(LinkLost):
                    return self._logged_in(MuxConnection(self.control, left_s))
            if self._is_ended:
                raise LoginFailed(f"the login to {target.shown} was given up")
            if has_closed:
                raise login_failure(target, self.said)

    def _logged_in(self, watch: MuxConnection) -> None:
        with self._lock:
            if self._is_ended:
                watch.close()
                raise LinkLost(0, "ssh was ended here")
            self._watch = watch
            self._said = b""  # a banner and warnings of the login are no reason for an end

    @property
    def has_ended(self) -> bool:
        """Whether the ssh process has not logged in yet, or has ended."""
        self._hear(0)
        with self._lock:
            is_lost = self._watch is not None and self._watch.has_ended
            has_ended = self._is_ended or self._watch is None or is_lost
        if is_lost:
            self._hear_last_words()
        return has_ended

    def _hear_last_words(self) -> None:
        """Hear why the connection has ended: ssh closes its control socket a moment before it says so."""
        deadline = time.monotonic() + LAST_WORDS_S
        while not self._said and self._hear(LOOK_S) and time.monotonic() < deadline:
            pass

    @property
    def said(self) -> str:
        """The last lines of ssh's stderr."""
        return self._said.decode("utf-8", "backslashreplace")

    @property
    def last_words(self) -> str:
        """The last line of ssh's stderr, for a message."""
        return printable(self.said.strip().rpartition("\n")[2])

    def end(self) -> None:
        """End the ssh process, by force if it does not end by itself, and remove its control socket."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
            if self._watch is not None:
                # Also for an ssh that the user's configuration has sent to the background.
                with suppress(LinkLost):
                    self._watch.end_ssh(END_S)
                self._watch.close()
            self._stdin.close()
            self._stderr.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # it waits for a disk, and ends by itself afterwards
                self._process.wait(END_S)
        self._folder.remove()

    def _hear(self, within_s: float) -> bool:
        """Keep what ssh says; return False when ssh has closed its stderr, or was ended."""
        with self._lock:
            if self._is_ended:
                return False
            poll = select.poll()  # not select: with many machines a descriptor is beyond 1,023
            poll.register(self._stderr, select.POLLIN)
            poll.poll(within_s * 1000)
            try:
                data = os.read(self._stderr.fileno(), SAID_KEPT)
            except BlockingIOError:
                return True
            self._said = (self._said + data)[-SAID_KEPT:]
            return bool(data)
