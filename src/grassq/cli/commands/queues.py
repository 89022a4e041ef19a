"""create-queue, delete-queue, pause, resume."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager

from grassq import home as homes
from grassq.cli import render
from grassq.cli.connect import connect
from grassq.cli.typed import has_flag, take_option
from grassq.errors import BadInput
from grassq.net.client import ApiClient


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    if name == "delete-queue":
        parser.add_argument("queue", metavar="NAME", help="the queue; its running jobs finish, its other jobs wait")
        parser.add_argument("--worker", metavar="NAME", help="on this worker of the broker (default: on this machine)")
        parser.add_argument("--at-broker", action="store_true", help="a queue that was defined at the broker")
        parser.set_defaults(run=delete)
    elif name == "pause":
        parser.add_argument("queue", metavar="QUEUE", nargs="?", help="one queue (default: all)")
        parser.set_defaults(run=pause)
    else:
        help_ = "a queue, or suspended jobs: 12, 3-7, @, a name (default: all queues)"
        parser.add_argument("names", metavar="QUEUE|SELECTOR", nargs="*", help=help_)
        parser.set_defaults(run=resume, verb=name, verbose=False)
    if name == "resume":
        text = "after a lost or restored store: go on without the workers, attempts and jobs that are missing"
        parser.add_argument("--restored", action="store_true", help=text)
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the name of the queue")


def words(name: str, argv: list[str]) -> int:
    """Send the words of `grass create-queue` and print the result."""
    from grassq.core.syntax.options import CREATE_QUEUE, value_options

    valued = value_options(CREATE_QUEUE)
    typed, argv = take_option("--broker", argv, valued, names=1)
    worker, _ = take_option("--worker", argv, valued, names=1)
    at_broker = has_flag(("--at-broker",), argv, valued, names=1)
    with _connect(typed, worker, at_broker) as client:
        answer = client.create_queue([os.fsencode(word) for word in argv])
    # The daemon splits the words, so its answer also holds --json and --quiet.
    chosen = answer.pop("print", {})
    if chosen.get("json"):
        render.document(answer)
    elif chosen.get("quiet"):
        render.line(str(answer.get("name")))
    else:
        render.line(f"queue {answer.get('name')} {answer.get('status')}")
    render.notes(answer.get("notes", []))
    home, is_here = homes.current(), worker is None and not at_broker
    if is_here and (broker := homes.broker(home)) is not None and not homes.joined(home):
        render.notes([f"created on this machine, not at {broker}; --worker NAME creates it on a worker of the broker"])
    return 0


def delete(arguments: argparse.Namespace) -> int:
    """Remove a queue."""
    with _connect(arguments.broker, arguments.worker, arguments.at_broker) as client:
        answer = client.change(
            "delete-queue", name=arguments.queue, worker=arguments.worker, at_broker=arguments.at_broker
        )
    name = str(answer.get("name"))
    return render.outcome(arguments.json, answer, name if arguments.quiet else f"queue {name} deleted")


def pause(arguments: argparse.Namespace) -> int:
    """Start no new jobs."""
    with connect(arguments.broker) as client:
        answer = client.change("pause", queue=arguments.queue)
    again = "grass resume" + (f" {arguments.queue}" if arguments.queue else "")
    sentence = f"paused {_which(arguments)}; running jobs go on, `{again}` starts the rest"
    return render.outcome(arguments.json, answer, (arguments.queue or "") if arguments.quiet else sentence)


def resume(arguments: argparse.Namespace) -> int:
    """Start jobs again, of a queue or of all; or let suspended jobs go on."""
    if arguments.restored and arguments.names:
        raise BadInput("--restored concerns the whole broker, not one queue or job")
    from grassq.sdk.fleet import queue_among

    with connect(arguments.broker) as client:
        arguments.queue = queue_among(client, arguments.names)
        if arguments.names and arguments.queue is None:
            return _resume_jobs(client, arguments)
        answer = client.change("resume", queue=arguments.queue, restored=arguments.restored)
    sentence = (
        "going on without what the store has no record of" if arguments.restored else f"resumed {_which(arguments)}"
    )
    return render.outcome(arguments.json, answer, (arguments.queue or "") if arguments.quiet else sentence)


def _resume_jobs(client: ApiClient, arguments: argparse.Namespace) -> int:
    from grassq.cli.commands.jobs import job_actions

    answer = client.change("jobs/resume", selectors=arguments.names)
    job_actions.report(arguments, answer)
    render.notes(answer.get("notes", []))
    return 0


def _connect(broker: str | None, worker: str | None, at_broker: bool) -> AbstractContextManager[ApiClient]:
    # A queue belongs to the broker, to the worker that is named, or else to the machine that runs this command.
    is_here = worker is None and not at_broker
    if is_here and broker not in (None, homes.LOCAL):
        raise BadInput("a queue belongs to one machine: with --broker, add --worker NAME or --at-broker")
    return connect(broker, local=is_here)


def _which(arguments: argparse.Namespace) -> str:
    return f"queue {arguments.queue}" if arguments.queue else "all queues"
