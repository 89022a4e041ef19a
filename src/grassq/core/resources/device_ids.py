"""Device ids: which texts are allowed, and how they sort. Light to import, because the command line needs it."""

from __future__ import annotations

import re

from grassq.errors import BadInput

DEVICES_MAX = 4096

_DEVICE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


def check_device_id(name: str, value: object) -> str:
    """Return a device's id as text if a device may be called that, else say what is wrong with it."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _DEVICE_ID.fullmatch(text):
        raise BadInput(f"{name}: {value!r} is no device id; use whole numbers or names")
    return text


def device_order(device: str) -> tuple[bool, int, str]:
    """Return a sort key: numbers first and by value, then names."""
    number = device.isascii() and device.isdigit()
    return (not number, int(device) if number else 0, device)
