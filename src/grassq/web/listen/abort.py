"""Cutting a connection off, at once and whatever waits in its buffers."""

from __future__ import annotations

import asyncio
import contextlib


def cut(transport: asyncio.BaseTransport | None) -> None:
    """End a connection without a word; one that has ended already is left alone."""
    if isinstance(transport, asyncio.WriteTransport):
        # The TLS transport of Python 3.11.2, which Debian 12 has, cannot be aborted after its connection is lost.
        with contextlib.suppress(AttributeError):
            transport.abort()
