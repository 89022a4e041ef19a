"""A machine by ssh: one login, and bounded sessions over it."""

from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import threading
import time
import weakref
from pathlib import Path

from grassq.machines.ssh.control_folder import ControlFolder
from grassq.machines.ssh.failures import LoginFailed, agent_gone, keys_not_kept
from grassq.machines.ssh.master import Master
from grassq.machines.ssh.mux import MuxSession, TooManySessions
from grassq.machines.ssh.options import master_argv, person_argv, settings_argv
from grassq.machines.ssh.target import SshTarget, addresses
from grassq.machines.transport import LinkLost, Stream, check_command

#: How long a login may take, with all jump hosts.
LOGIN_S = 40.0
#: How long the server may take to open a session.
OPEN_S = 20.0
#: The sessions of one login at the same time. Servers allow 10 unless they are told otherwise.
SESSIONS_MAX = 8
#: How long an ssh agent may take to accept a connection.
AGENT_S = 1.0
#: How long ssh may take to print its configuration.
SETTINGS_S = 5.0
#: How long a server may still count a session that was closed here before its command had ended, and how often it is
#: asked again meanwhile.
ABANDONED_S = 2.0
ASK_AGAIN_S = 0.05


class SshTransport:
    """Starts commands on a machine over one ssh process. May be used by several threads."""

    def __init__(
        self,
        target: SshTarget,
        folder: str,
        *,
        agent: str | None = None,
        program: str = "ssh",
        new_key: bool = False,
        login_s: float = LOGIN_S,
        open_s: float = OPEN_S,
    ) -> None:
        self._target = target
        self._folder = folder
        self._agent = agent
        self._program = program
        self._new_key = new_key
        self._login_s = login_s
        self._open_s = open_s
        self._lock = threading.Lock()
        self._master: Master | None = None
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._opening = 0
        #: When a session was last closed here before its command had ended.
        self._abandoned_at = -math.inf
        #: `close` was called while `connect` is under way.
        self._is_given_up = False

    def connect(self) -> None:
        """Log in; LoginFailed with the reason. What was connected before is closed."""
        self.close()
        with self._lock:
            self._is_given_up = False
        if shutil.which(self._program) is None:
            raise LoginFailed(f"there is no program {self._program} here: install openssh-client", needs_person=True)
        if self._target.key is not None and not Path(self._target.key).expanduser().is_file():
            raise LoginFailed(f"the key file {self._target.key} is not there", needs_person=True)
        if self._target.key is not None and self._target.key.endswith(".pub"):
            why = f"{self._target.key} is the public half of a key; name the file without .pub"
            raise LoginFailed(why, needs_person=True)
        try:
            master = self._start()
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise LoginFailed(f"ssh cannot be started on this computer: {error.strerror}{where}") from error
        with self._lock:
            if not self._is_given_up:
                self._master = master
        try:
            if self._master is not master:
                raise LoginFailed(f"the login to {self._target.shown} was given up")
            master.wait_for_login(self._target, self._login_s)
        except BaseException as error:
            self.close()
            master.end()
            if isinstance(error, LoginFailed) and (better := self._explained(error)) is not None:
                raise better from error
            raise

    def open(self, command: str) -> Stream:
        """Start a command in the login shell there; TooManySessions if no further session is given."""
        check_command(command)
        master = self._connected()
        with self._lock:
            if self._opening + sum(not stream.is_closed for stream in self._streams) >= SESSIONS_MAX:
                raise TooManySessions(0, f"{self._target.shown} has {SESSIONS_MAX} sessions, the most for one machine")
            self._opening += 1
        try:
            stream = Stream(self._session(master.control, command))
            with self._lock:
                self._streams.add(stream)
            return stream
        except LinkLost:
            self.check()  # what ssh said last is the better reason
            raise
        finally:
            with self._lock:
                self._opening -= 1

    def check(self) -> None:
        """Raise LinkLost if the ssh process has ended."""
        self._connected()

    def close(self) -> None:
        """Log out: end the ssh process; its sessions end with it, and so does a login that is under way."""
        with self._lock:
            master, self._master = self._master, None
            self._is_given_up = True
        if master is not None:
            master.end()

    def interactive(self, *command: str) -> list[str]:
        """Return the words of an ssh command for a person at a terminal."""
        master = self._master
        return person_argv(self._program, self._target, master.control if master else None, command)

    def addresses(self) -> tuple[str, ...]:
        """Return where ssh finds the machine, as user@host:port, without a login; none if it is not known."""
        return addresses(self._target, self._settings())

    def _start(self) -> Master:
        folder = ControlFolder(self._folder)
        argv = master_argv(self._program, self._target, folder.socket, agent=self._agent, new_key=self._new_key)
        try:
            return Master(argv, folder)
        except BaseException:
            folder.remove()
            raise

    def _explained(self, failure: LoginFailed) -> LoginFailed | None:
        """Return a failure with a cause that ssh does not say, if it has one."""
        if failure.is_denied and self._agent and not _answers(self._agent):
            return agent_gone(failure, self._agent)
        if failure.is_unknown_key and self._keeps_no_keys():
            return keys_not_kept(self._target)
        return None

    def _keeps_no_keys(self) -> bool:
        return self._settings().get("userknownhostsfile") == "/dev/null"

    def _settings(self) -> dict[str, str]:
        """Return the user's configuration for the machine; empty if ssh does not say it."""
        argv = settings_argv(self._program, self._target)
        try:
            found = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=SETTINGS_S, check=False
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return {}
        pairs = (line.partition(" ") for line in os.fsdecode(found).splitlines())
        return {name: value for name, _, value in pairs}

    def _session(self, control: str, command: str) -> MuxSession:
        while True:
            try:
                return MuxSession(control, command, self._open_s, self._abandoned)
            except TooManySessions:
                if time.monotonic() - self._abandoned_at > ABANDONED_S:
                    raise
            time.sleep(ASK_AGAIN_S)

    def _abandoned(self) -> None:
        self._abandoned_at = time.monotonic()

    def _connected(self) -> Master:
        master = self._master
        if master is None:
            raise LinkLost(0, f"{self._target.shown} is not connected")
        if master.has_ended:
            why = f": {master.last_words}" if master.last_words else ""
            raise LinkLost(0, f"the connection to {self._target.shown} has ended{why}")
        return master


def _answers(agent: str) -> bool:
    """Tell whether an ssh agent listens at this path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(AGENT_S)
        try:
            connection.connect(agent)
        except OSError:
            return False
    return True
