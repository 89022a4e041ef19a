"""create-queue, delete-queue, pause, resume."""

from __future__ import annotations

import argparse
import os

from grassq.cli import render
from grassq.cli.hot import working_directory
from grassq.cli.link import connect


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    if name == "delete-queue":
        parser.add_argument("queue", metavar="NAME", help="the queue; its running jobs finish, others wait")
        parser.set_defaults(run=delete)
    else:
        parser.add_argument("queue", metavar="QUEUE", nargs="?", help="one queue (default: all)")
        parser.set_defaults(run=pause if name == "pause" else resume)
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")


def words(name: str, argv: list[str]) -> int:
    """Send the words of `grass create-queue` and say what became of the queue."""
    with connect() as client:
        answer = client.create_queue([os.fsencode(word) for word in argv], cwd=working_directory())
    # The daemon splits the words, so it also says how the answer is to be printed.
    chosen = answer.pop("print", {})
    if chosen.get("json"):
        render.document(answer)
    elif chosen.get("quiet"):
        render.line(str(answer.get("name")))
    else:
        render.line(f"queue {answer.get('name')} {answer.get('status')}")
    render.notes(answer.get("notes", []))
    return 0


def delete(arguments: argparse.Namespace) -> int:
    """Remove a queue."""
    with connect() as client:
        answer = client.delete_queue(arguments.queue)
    return _say(arguments, answer, f"queue {answer.get('name')} deleted")


def pause(arguments: argparse.Namespace) -> int:
    """Start no new jobs."""
    with connect() as client:
        answer = client.pause(arguments.queue)
    again = "grass resume" + (f" {arguments.queue}" if arguments.queue else "")
    return _say(arguments, answer, f"paused {_which(arguments)}; running jobs go on, `{again}` starts the rest")


def resume(arguments: argparse.Namespace) -> int:
    """Start jobs again."""
    with connect() as client:
        answer = client.resume(arguments.queue)
    return _say(arguments, answer, f"resumed {_which(arguments)}")


def _say(arguments: argparse.Namespace, answer: dict[str, object], sentence: str) -> int:
    if arguments.json:
        render.document(answer)
    else:
        render.line(sentence)
    notes = answer.get("notes")
    render.notes([str(note) for note in notes] if isinstance(notes, list) else [])
    return 0


def _which(arguments: argparse.Namespace) -> str:
    return f"queue {arguments.queue}" if arguments.queue else "all queues"
