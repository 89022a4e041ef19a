"""The page of Grass at GPUPeasy's port: the daemon serves it as long as this program holds a request open."""

from __future__ import annotations

import os
import select
import threading
from time import sleep

from grassq import home
from grassq.cli import render
from grassq.compat.gpupeasy.arguments import GuiArguments
from grassq.compat.messages import Messages
from grassq.compat.signals import Signals
from grassq.errors import GrassError, Unreachable
from grassq.net.client import ApiClient
from grassq.net.encoding import query
from grassq.net.event_stream import read_frames
from grassq.net.page_link import page_links

#: The daemon says something this often; a longer silence is a lost connection.
SILENT_S = 40.0
#: Seconds until a lost door is opened again.
AGAIN_S = 1.0


class PageDoor:
    """Holds the door open, also when the daemon is replaced. `fileno` is readable when something has changed."""

    def __init__(self, client: ApiClient, arguments: GuiArguments) -> None:
        self._client = client
        self._path = "/v1/session/door" + query([("port", arguments.port), ("queue", arguments.queue)])
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        #: Whether the door is open now.
        self.is_open = False
        #: Why it cannot be opened at all.
        self.failure: GrassError | None = None
        threading.Thread(target=self._hold, daemon=True).start()

    def fileno(self) -> int:
        """Return a descriptor to wait for."""
        return self._reading

    def take(self) -> bool:
        """Return whether the door is open; raise the error if it cannot be opened."""
        os.read(self._reading, 64)
        if self.failure is not None:
            raise self.failure
        return self.is_open

    def _hold(self) -> None:
        while self.failure is None:
            try:
                parts, connection = self._client.stream(self._path, SILENT_S)
                try:
                    for _ in read_frames(parts):
                        self._tell(is_open=True)
                finally:
                    connection.close()
            except Unreachable:
                pass
            except GrassError as error:
                self.failure = error
            self._tell(is_open=False)
            sleep(AGAIN_S)

    def _tell(self, *, is_open: bool) -> None:
        if self.is_open != is_open or self.failure is not None:
            self.is_open = is_open
            os.write(self._writing, b"x")


def show(client: ApiClient, arguments: GuiArguments, messages: Messages, signals: Signals) -> int:
    """Keep the page open until the first signal; return it. Print a link at first, and again for each line of stdin."""
    door = PageDoor(client, arguments)
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    poll.register(door, select.POLLIN)
    if has_terminal := os.isatty(0):
        poll.register(0, select.POLLIN)
    was_shown = False
    while not signals.take():
        for descriptor, _ in poll.poll():
            if descriptor == door.fileno():
                is_open = door.take()
                if is_open and not was_shown:
                    was_shown = True
                    _print_link(client, arguments, messages, has_terminal)
                elif was_shown:
                    messages.say("the page is open again" if is_open else "the daemon is away; the page waits for it")
            elif descriptor == 0:
                if not os.read(0, 4096):
                    poll.unregister(0)
                elif door.is_open:
                    _print_link(client, arguments, messages, has_terminal)
    messages.say("the page is closed; jobs go on")
    return signals.first


def _print_link(client: ApiClient, arguments: GuiArguments, messages: Messages, has_terminal: bool) -> None:
    answer = client.change("session/link", port=arguments.port, cwd=home.directory_text())
    link = page_links(answer)[0]
    if answer.get("port") != arguments.port:
        raise Unreachable(f"the page at port {arguments.port} was closed meanwhile; start gpupeasy-gui again")
    render.line(link)
    again = "Enter prints another link, " if has_terminal else ""
    messages.say(f"open this link in a browser within a minute; it works once. {again}ctrl-C closes the page")
    if answer.get("is_built") is False:
        messages.say("this Grass was installed without its page; the link says how to get it")
