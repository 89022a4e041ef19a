"""Reads the event stream of the queue on a thread; a descriptor wakes the main loop when there are frames."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

from grassq.errors import GrassError, NotFound, Unreachable
from grassq.net.event_stream import EventStream, Frame, JobOutput

#: Bytes of frames not yet taken; above this limit the thread stops reading until frames are taken.
BUFFER_MAX = 1 << 20
#: Bytes counted for a frame in addition to its output.
FRAME_WEIGHT = 200
#: The call gives up after FAILURES_MAX subscriptions in a row that each lasted less than STEADY_S seconds.
STEADY_S = 30.0
FAILURES_MAX = 20
PAUSE_S = 1.0


class EventReader:
    """Buffers the frames of an event stream; `fileno` is readable while there are some."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._frames: list[Frame] = []
        self._weight = 0
        self._failure: GrassError | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._start()

    def fileno(self) -> int:
        """Return a descriptor that is readable while there are frames or an error to take."""
        return self._eventfd

    def take(self) -> list[Frame]:
        """Return the frames since the last call; after the last frame, raise the error that ended the stream."""
        with self._changed:
            frames, self._frames, self._weight = self._frames, [], 0
            self._changed.notify()
            if not frames and self._failure is not None:
                raise self._failure
            if self._failure is None:
                self._drain()
        return frames

    def read_on(self) -> None:
        """Read on after an error, from where the stream was."""
        self._failure = None
        self._drain()
        self._start()

    def close(self) -> None:
        """End the subscription."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._stream.close()

    def _start(self) -> None:
        # A daemon thread: the process may exit while the thread waits for an answer.
        threading.Thread(target=self._read, name="event-reader", daemon=True).start()

    def _read(self) -> None:
        why: GrassError = Unreachable("the event stream of the queue has ended")
        try:
            for frame in self._stream:
                self._keep(frame)
                if self._is_closed:
                    return
        except GrassError as error:
            why = error
        except Exception as error:
            # The top of this thread's loop: a bug is reported like any error, and the scheduler subscribes again.
            why = Unreachable(f"the events of the queue cannot be read ({type(error).__name__}: {error})")
        finally:
            # However this thread ends, the main loop must wake up.
            with self._changed:
                os.eventfd_write(self._eventfd, 1)
                self._failure = why

    def _keep(self, frame: Frame) -> None:
        with self._changed:
            while self._weight > BUFFER_MAX and not self._is_closed:
                self._changed.wait()
            if not self._frames:
                os.eventfd_write(self._eventfd, 1)
            self._frames.append(frame)
            self._weight += FRAME_WEIGHT + (len(frame.data) if isinstance(frame, JobOutput) else 0)

    def _drain(self) -> None:
        with suppress(BlockingIOError):  # there was no frame
            os.eventfd_read(self._eventfd)


class Resubscription:
    """Subscribes again after the daemon was away for longer than a client waits, some times in a row."""

    def __init__(self, reader: EventReader, create_queue: Callable[[], None], say: Callable[[str], None]) -> None:
        """`create_queue` makes the queue, and changes nothing if it is there; `say` gets one message."""
        self._reader = reader
        self._create_queue = create_queue
        self._say = say
        self._failures = 0
        self._subscribed = monotonic()

    def after(self, error: GrassError) -> None:
        """Read on from the last position after an error; raise the error after too many in a row."""
        now = monotonic()
        self._failures = self._failures + 1 if now - self._subscribed < STEADY_S else 1
        if self._failures > FAILURES_MAX:
            raise error
        if self._failures > 1:
            sleep(PAUSE_S)
        elif not isinstance(error, NotFound):
            self._say(f"{error}; trying again")
        # The queue may have been deleted, or removed while this process was suspended; its jobs then wait for it.
        # An error here comes back, and is counted, at the subscription.
        with suppress(GrassError):
            self._create_queue()
        self._reader.read_on()
        self._subscribed = now
