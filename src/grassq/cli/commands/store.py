"""store: copies all jobs to another store."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from grassq.cli import render
from grassq.cli.progress import progress
from grassq.core.syntax.store_urls import is_postgres, shown_url
from grassq.errors import BadInput

MEMORY = "memory"


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `store`."""
    parser.add_argument("action", metavar="copy", help="copy is the only action")
    parser.add_argument(
        "source", metavar="FROM", help="sqlite:PATH or postgresql://...; no daemon may use it during the copy"
    )
    parser.add_argument("target", metavar="TO", help="sqlite:PATH or postgresql://..., empty or not yet existing")
    parser.set_defaults(run=store)


def store(arguments: argparse.Namespace) -> int:
    """Copy a whole store into an empty one."""
    if arguments.action != "copy":
        raise BadInput(f"there is no `grass store {arguments.action}`, only `grass store copy FROM TO`")
    source, target = (store_url(each, "a store to copy") for each in (arguments.source, arguments.target))
    if MEMORY in (source, target):
        raise BadInput("a store in memory cannot be copied; name sqlite:PATH or postgresql://...")
    if source == target:
        raise BadInput("the two stores are the same")
    from grassq.daemon import copy_store

    with progress("copying", is_shown=os.isatty(2)) as advance:
        jobs = copy_store(source, target, lambda done, total: advance(done, total, ""))
    count = f"{jobs} {'job' if jobs == 1 else 'jobs'}"
    return render.line(f"copied {count}; `grass daemon --store {shown_url(target)}` serves them")


def store_url(text: str, what: str = "--store") -> str:
    """Return the URL with an absolute path, because a detached daemon runs in `/`."""
    if text == MEMORY or is_postgres(text):
        return text
    if text.startswith("sqlite:") and text != "sqlite:":
        return f"sqlite:{Path(text.removeprefix('sqlite:')).absolute()}"
    raise BadInput(f"{what} takes memory, sqlite:PATH or postgresql://..., not '{shown_url(text)}'")
