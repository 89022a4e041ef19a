"""What the daemon tells of our queue, heard by a thread and handed over through a descriptor that can be waited for."""

from __future__ import annotations

import os
import threading

from grassq.errors import GrassError, Unreachable
from grassq.net.event_stream import EventStream, Frame, JobOutput, Place

#: Bytes heard and not yet taken; with more, the thread stops listening until they are.
HEARD_MAX = 1 << 20
#: What a frame weighs beside the output in it.
FRAME_WEIGHT = 200


class EventReader:
    """Subscribes to a queue; `take` gives what was heard, and `fileno` is readable when there is something."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._heard: list[Frame] = []
        self._weight = 0
        self._failure: GrassError | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # A daemon thread: it may be waiting for a daemon that does not answer, and nobody has to wait for it then.
        threading.Thread(target=self._listen, name="event-reader", daemon=True).start()

    def fileno(self) -> int:
        """Readable when there is something to take."""
        return self._bell

    def take(self) -> list[Frame]:
        """What was heard since the last time; after the last of it, why nothing more is heard is raised."""
        with self._changed:
            heard, self._heard, self._weight = self._heard, [], 0
            self._changed.notify()
            if not heard and self._failure is not None:
                raise self._failure
            if self._failure is None:
                self._drain()
        return heard

    def places(self) -> dict[int, Place]:
        """How far the output of each unfinished job was heard; for the next subscription."""
        return self._stream.offsets

    def close(self) -> None:
        """End the subscription."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            if self._failure is not None:
                # The thread rings no more. Else it may still be on its way, and is not waited for.
                os.close(self._bell)
        self._stream.close()

    def _listen(self) -> None:
        why: GrassError = Unreachable("nothing more is told of the queue")
        try:
            for frame in self._stream:
                self._hear(frame)
                if self._is_closed:
                    return
        except GrassError as error:
            why = error
        except Exception as error:
            # The top of this thread's loop: a bug is told like any trouble, and the scheduler asks again or gives up.
            why = Unreachable(f"what is told of the queue cannot be heard ({type(error).__name__}: {error})")
        finally:
            # Whatever ends this thread: nobody waits for what it would have heard.
            with self._changed:
                os.eventfd_write(self._bell, 1)
                self._failure = why

    def _hear(self, frame: Frame) -> None:
        with self._changed:
            while self._weight > HEARD_MAX and not self._is_closed:
                self._changed.wait()
            if not self._heard:
                os.eventfd_write(self._bell, 1)
            self._heard.append(frame)
            self._weight += FRAME_WEIGHT + (len(frame.data) if isinstance(frame, JobOutput) else 0)

    def _drain(self) -> None:
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return  # nothing had been heard
