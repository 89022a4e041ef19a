"""The browser that measurements and tests look at pages with."""

from __future__ import annotations

import os
import shutil

from playwright.sync_api import Browser, BrowserType

#: A browser without a display that asks nobody but our daemon.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium() -> str:
    """Return the path of Debian's Chromium, or end with one line that says what installs it."""
    found = os.environ.get("GRASS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise SystemExit("there is no chromium here: `sh tests/needs.sh` installs it, or GRASS_TEST_CHROMIUM names one")
    return found


def launch(kind: BrowserType, *more: str, path: str | None = None) -> Browser:
    """Start the browser, with more arguments if any are given."""
    return kind.launch(executable_path=path or chromium(), args=[*ARGUMENTS, *more], headless=True)
