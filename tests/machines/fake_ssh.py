"""An `ssh` without a network: `python -I -S fake_ssh.py FOLDER RTT_MS SSH-WORDS...`, for a hundred machines at once.

A host is a home of its own, FOLDER/HOST, on this computer. A login takes as many round trips as OpenSSH's, a session
over a master takes two, and data travels for half a round trip. The master gives sessions by OpenSSH's own protocol
(PROTOCOL.mux, version 4). When the master dies, the commands there see their pipes close, as behind a real sshd.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import socket
import struct
import sys
import time

#: Options of OpenSSH that are followed by a word.
WITH_WORD = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
#: Round trips: TCP, banner, key exchange in two, user authentication in three.
LOGIN_TRIPS = 7
SESSION_TRIPS = 2
CHUNK = 64 << 10
#: Bytes under way in one direction, before more is read.
WINDOW = 2 << 20
FAILED = 255
#: How often it is looked whether a command has ended.
LOOK_S = 0.005
VERSION = 4
HELLO, NEW_SESSION, ALIVE_CHECK, TERMINATE = 1, 0x10000002, 0x10000004, 0x10000005
OK, EXIT_MESSAGE, ALIVE, SESSION_OPENED = 0x80000001, 0x80000004, 0x80000005, 0x80000006


class Words:
    """The words of a command line, as far as they matter here."""

    def __init__(self, argv: list[str]) -> None:
        self.flags: set[str] = set()
        self.options: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        rest = list(argv)
        while rest and rest[0].startswith("-") and rest[0] != "--":
            self._option(rest.pop(0)[1:], rest)
        if rest and rest[0] == "--":
            rest.pop(0)
        self.host = rest.pop(0).rpartition("@")[2] if rest else ""
        self.command = " ".join(rest)
        self.path = self.options.get("S") or self.settings.get("controlpath", "")

    def _option(self, letters: str, rest: list[str]) -> None:
        for at, letter in enumerate(letters):
            if letter not in WITH_WORD:
                self.flags.add(letter)
                continue
            word = letters[at + 1 :] or rest.pop(0)
            self.options[letter] = word
            if letter == "o":
                name, _, value = word.replace("=", " ", 1).partition(" ")
                self.settings.setdefault(name.lower(), value.strip())
            return


def fail(words: str) -> int:
    """Say why, and return ssh's own code."""
    sys.stderr.write(words + "\r\n")
    return FAILED


def send(line: socket.socket, *numbers: int, text: bytes | None = None) -> None:
    """Send one message: its kind, its numbers, and a text."""
    body = b"".join(struct.pack(">I", number) for number in numbers)
    body += b"" if text is None else struct.pack(">I", len(text)) + text
    line.sendall(struct.pack(">I", len(body)) + body)


def receive(line: socket.socket) -> bytes:
    """Return the next message; empty at the end."""
    head = line.recv(4, socket.MSG_WAITALL)
    return line.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL) if len(head) == 4 else b""


def numbers_of(message: bytes) -> tuple[int, ...]:
    """Return the numbers that a message begins with."""
    return struct.unpack_from(f">{len(message) // 4}I", message)


def command_of(message: bytes) -> str:
    """Return the command of a request for a session."""
    at = 8 + 4 + struct.unpack_from(">I", message, 8)[0] + 5 * 4
    at += 4 + struct.unpack_from(">I", message, at)[0]
    size = struct.unpack_from(">I", message, at)[0]
    return message[at + 4 : at + 4 + size].decode()


class Pump:
    """Bytes on their way from one descriptor to another, each for some time."""

    def __init__(self, source: int, target: int, delay_s: float) -> None:
        self.source, self.target = source, target
        self._delay_s = delay_s
        self._under_way: collections.deque[tuple[float, bytes]] = collections.deque()
        self._size = 0
        self.is_open = True
        self.is_done = False

    @property
    def reads(self) -> bool:
        """Whether more is read now."""
        return self.is_open and self._size < WINDOW

    def read(self) -> None:
        """Take what is there."""
        try:
            data = os.read(self.source, CHUNK)
        except BlockingIOError:
            return
        self.is_open = bool(data)
        self._under_way.append((time.monotonic() + self._delay_s, data))
        self._size += len(data)

    def close(self) -> None:
        """Close both ends, if they are not closed."""
        if not self.is_done:
            os.close(self.target)
            self.is_done = True
        os.close(self.source)

    def wait_s(self) -> float | None:
        """Return the time until something arrives, None if nothing is under way."""
        return max(0.0, self._under_way[0][0] - time.monotonic()) if self._under_way else None

    def write(self) -> None:
        """Deliver what has arrived; the end of the data is delivered too."""
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            at, data = self._under_way.popleft()
            if not data:
                os.close(self.target)
                self.is_done = True
                return
            try:
                count = os.write(self.target, data)
            except BlockingIOError:
                count = 0
            except BrokenPipeError:
                os.close(self.target)
                self.is_open, self.is_done = False, True
                return
            self._size -= count
            if count < len(data):
                # The reader is slow: the rest arrives a little later.
                self._under_way.appendleft((max(at, time.monotonic() + 0.001), data[count:]))
                return


class Session:
    """A command that runs in the home of the host, and its three streams."""

    def __init__(
        self, line: socket.socket, number: int, command: str, ends: list[int], home: str, rtt_s: float
    ) -> None:
        self.line, self.number, self._rtt_s = line, number, rtt_s
        (there, stdin), (stdout, out), (stderr, err) = os.pipe(), os.pipe(), os.pipe()
        self.code: int | None = None
        self._child = os.fork()
        if self._child == 0:
            for target, each in enumerate((there, out, err)):
                os.dup2(each, target)
            os.closerange(3, 1000)
            os.setsid()
            os.chdir(home)
            env = {"HOME": home, "PATH": os.defpath, "USER": "ann", "SHELL": "/bin/sh"}
            os.execve("/bin/sh", ["sh", "-c", command], env)
        for each in (there, out, err):
            os.close(each)
        self.pumps = [
            Pump(ends[0], stdin, rtt_s / 2),
            Pump(stdout, ends[1], rtt_s / 2),
            Pump(stderr, ends[2], rtt_s / 2),
        ]
        for pump in self.pumps:
            os.set_blocking(pump.source, False)
            os.set_blocking(pump.target, False)

    @property
    def is_over(self) -> bool:
        """Whether the command has closed its output and ended."""
        return all(pump.is_done for pump in self.pumps[1:]) and self.has_ended()

    def has_ended(self) -> bool:
        """Whether the command has ended; its code is known then."""
        if self.code is None:
            done, status = os.waitpid(self._child, os.WNOHANG)
            if done:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def close(self) -> None:
        """Close the streams: the command sees it, and goes on if it likes. Tell the client a code that is known."""
        for pump in self.pumps:
            pump.close()
        code = FAILED if self.code is None or self.code < 0 else self.code
        # The client may have gone before.
        with contextlib.suppress(OSError):
            send(self.line, EXIT_MESSAGE, self.number, code)
        self.line.close()


class Master:
    """An ssh process that has logged in, and gives sessions."""

    def __init__(self, path: str, home: str, rtt_s: float) -> None:
        self._home, self._rtt_s = home, rtt_s
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(path)
        self._server.listen(100)
        self._clients: dict[int, socket.socket] = {}
        self._sessions: dict[int, Session] = {}
        #: Sessions whose client has gone, and whose command runs on.
        self._left: list[Session] = []
        self._count = 0

    def run(self) -> None:
        """Serve until a client asks for the end."""
        while True:
            poll = select.poll()
            for line in (self._server, *self._clients.values()):
                poll.register(line, select.POLLIN)
            pumps = [pump for session in self._sessions.values() for pump in session.pumps if not pump.is_done]
            for pump in pumps:
                if pump.reads:
                    poll.register(pump.source, select.POLLIN)
            waits = [wait for pump in pumps if (wait := pump.wait_s()) is not None]
            if any(all(pump.is_done for pump in session.pumps[1:]) for session in self._sessions.values()):
                # Its output is closed, and the command has not ended yet.
                waits.append(LOOK_S)
            ready = {number for number, _ in poll.poll(min(waits) * 1000 + 0.5 if waits else None)}
            for pump in pumps:
                if pump.reads and pump.source in ready:
                    pump.read()
                pump.write()
            for number in [number for number, session in self._sessions.items() if session.is_over]:
                del self._clients[number]
                self._sessions.pop(number).close()
            if self._left:
                self._left = [session for session in self._left if not session.has_ended()]
            if self._server.fileno() in ready:
                client = self._server.accept()[0]
                self._clients[client.fileno()] = client
                send(client, HELLO, VERSION)
            for number in ready & self._clients.keys():
                if not self._serve(number, self._clients[number]):
                    return

    def _serve(self, number: int, client: socket.socket) -> bool:
        """Do what a client asks; return False if it asks for the end."""
        try:
            message = receive(client)
        except OSError:
            message = b""
        kind, *numbers = numbers_of(message) or (0,)
        if kind == NEW_SESSION:
            ends = [descriptor for _ in range(3) for descriptor in socket.recv_fds(client, 1, 1)[1]]
            time.sleep(SESSION_TRIPS * self._rtt_s)
            self._count += 1
            send(client, SESSION_OPENED, numbers[0], self._count)
            command = command_of(message)
            self._sessions[number] = Session(client, self._count, command, ends, self._home, self._rtt_s)
        elif kind == ALIVE_CHECK:
            send(client, ALIVE, numbers[0], os.getpid())
        elif kind == TERMINATE:
            send(client, OK, numbers[0])
            return False
        elif not message:
            del self._clients[number]
            if (session := self._sessions.pop(number, None)) is not None:
                session.close()
                self._left.append(session)
            else:
                client.close()
        return True


def master(words: Words, home: str, rtt_s: float) -> int:
    """Log in, and give sessions until somebody ends this process."""
    time.sleep(LOGIN_TRIPS * rtt_s)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        Master(words.path, home, rtt_s).run()
    finally:
        os.unlink(words.path)
    return 0


def client(words: Words) -> int:
    """Ask a master for a session with our own streams, for its number, or for its end."""
    try:
        line = socket.socket(socket.AF_UNIX)
        line.connect(words.path)
        send(line, HELLO, VERSION)
        receive(line)
        if "O" in words.options:
            send(line, ALIVE_CHECK if words.options["O"] == "check" else TERMINATE, 0)
            receive(line)
            return 0
        no_text = struct.pack(">I", 0)
        request = struct.pack(">II", NEW_SESSION, 0) + no_text + struct.pack(">5I", 0, 0, 0, 0, 0xFFFFFFFF) + no_text
        request += struct.pack(">I", len(words.command)) + words.command.encode()
        line.sendall(struct.pack(">I", len(request)) + request)
        for descriptor in range(3):
            socket.send_fds(line, [b"\0"], [descriptor])
        while message := receive(line):
            if numbers_of(message)[0] == EXIT_MESSAGE:
                return numbers_of(message)[2]
        return FAILED
    except OSError:
        return fail("Connection closed by UNKNOWN port 65535")


def main(folder: str, rtt_ms: str, argv: list[str]) -> int:
    """Do what ssh would do with these words."""
    words, rtt_s = Words(argv), float(rtt_ms) / 1000
    home = os.path.join(folder, words.host)
    if "V" in words.flags:
        sys.stderr.write("OpenSSH_9.2p1 pretended\n")
        return 0
    if not words.host or not os.path.isdir(home):
        return fail(f"ssh: Could not resolve hostname {words.host}: Name or service not known")
    if "G" in words.flags:
        sys.stdout.write(f"host {words.host}\nuser ann\nhostname {words.host}\nport 22\n")
        return 0
    if "M" in words.flags or words.settings.get("controlmaster") == "yes":
        return master(words, home, rtt_s)
    return client(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
