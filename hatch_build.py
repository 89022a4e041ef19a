"""Builds the web page into the package when a wheel, an sdist or an editable install is made.

The page is built anew if its sources changed, by their content: the times of files mean nothing in an sdist. Where npm
is missing and no page was built before, the package is made without the page. GRASS_WEB=require makes that an error,
and GRASS_WEB=skip builds no page.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What the page is made from, in the folder `webui`.
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "public", "src")
STATIC = "src/grassq/web/static"
#: The digest of the sources that the page in STATIC was built from.
MARK = ".built"


class PageBuildHook(BuildHookInterface[Any]):
    """Runs before the files of a package are collected."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if it is missing or older than its sources."""
        root = Path(self.root)
        why_not = build_page(root, os.environ.get("GRASS_WEB", ""))
        if why_not is not None:
            self.app.display_warning(why_not)


def build_page(root: Path, wish: str = "") -> str | None:
    """Build the page unless it is up to date; return why there is none, or raise RuntimeError if there must be one."""
    static, sources = root / STATIC, root / "webui"
    if wish == "skip":
        return None
    digest = source_digest(sources)
    if built_from(static) == digest:
        return None
    npm = shutil.which("npm")
    if npm is None:
        words = "no npm here, so this install has no web page; install Node.js 20 or newer and install Grass again"
    elif problem := _build(npm, sources):
        words = f"the web page was not built: {problem}"
    else:
        (static / MARK).write_text(digest + "\n")
        return None
    if wish == "require":
        raise RuntimeError(words)
    return words if built_from(static) is None else f"{words}; the page of an earlier build is used"


def source_digest(sources: Path) -> str:
    """Return a digest of the names and contents of the page's sources."""
    total = hashlib.sha256()
    for name in SOURCES:
        top = sources / name
        files = sorted(path for path in top.rglob("*") if path.is_file()) if top.is_dir() else [top]
        for path in files:
            total.update(f"{path.relative_to(sources).as_posix()}\0{path.stat().st_size}\0".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def built_from(static: Path) -> str | None:
    """Return the digest of the sources of the page that is there; None if there is no page."""
    try:
        return (static / MARK).read_text().strip() if (static / "index.html").is_file() else None
    except OSError:
        return None


def _build(npm: str, sources: Path) -> str | None:
    """Install what the build needs and build; return the last words of npm if that failed."""
    for words in (["ci", "--omit=dev", "--no-audit", "--no-fund"], ["run", "build"]):
        if words[0] == "ci" and (sources / "node_modules" / "vite").is_dir():
            continue
        done = subprocess.run([npm, *words], cwd=sources, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            return f"`npm {' '.join(words)}` failed: {said[-1] if said else done.returncode}"
    return None


if __name__ == "__main__":
    if (trouble := build_page(Path(__file__).parent, os.environ.get("GRASS_WEB", ""))) is not None:
        print(f"grass: {trouble}", file=sys.stderr)
