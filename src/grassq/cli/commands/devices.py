"""device: list, add, remove and drain devices."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from grassq import home as homes
from grassq.cli import render
from grassq.cli.connect import connect
from grassq.errors import BadInput
from grassq.net.client import ApiClient

ACTIONS = ("list", "add", "remove", "drain", "undrain")
_ACTIONS_HELP = "list (default), add, remove, drain or undrain"
#: What became of devices, by action.
_DONE = {
    "add": "added; the next job may get {it}",
    "remove": "removed",
    "drain": "drained; `grass device undrain` lets {it} take jobs again",
    "undrain": "takes jobs again",
}


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `device`."""
    parser.add_argument("action", metavar="ACTION", nargs="?", default="list", help=_ACTIONS_HELP)
    parser.add_argument("ids", metavar="ID", nargs="*", help="devices: ids or names, such as 0 1 or 0,1")
    parser.add_argument("--worker", metavar="NAME", help="on this worker of the broker (default: on this machine)")
    parser.add_argument("--resource", metavar="NAME", help="the kind of devices (default: gpu; of list: every kind)")
    parser.add_argument("--kill", action="store_true", help="remove: end the jobs that hold the devices")
    parser.add_argument("--vram", metavar="SIZE", help="add: the memory of each device, such as 24G")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the ids of the devices")
    parser.set_defaults(run=device)


def device(arguments: argparse.Namespace) -> int:
    """List devices, or change some."""
    if arguments.action not in ACTIONS:
        raise BadInput(f"there is no `grass device {arguments.action}`; it is {_ACTIONS_HELP}")
    ids = [id_ for word in arguments.ids for id_ in word.split(",") if id_]
    if arguments.action == "list":
        if ids or arguments.kill or arguments.vram:
            raise BadInput("`grass device list` takes no devices, no --kill and no --vram")
        return _list(arguments)
    if not ids:
        raise BadInput(f"say which devices: grass device {arguments.action} ID...; `grass device` lists them")
    with _connect(arguments) as client:
        answer = client.change(
            f"devices/{arguments.action}",
            ids=ids,
            worker=arguments.worker,
            resource=arguments.resource,
            kill=arguments.kill,
            vram=arguments.vram,
        )
    if arguments.quiet:
        return render.outcome(arguments.json, answer, " ".join(ids))
    done = _DONE[arguments.action].format(it="it" if len(ids) == 1 else "them")
    where = f"{answer.get('resource')} {', '.join(ids)} on {answer.get('worker')}: {done}"
    killed = answer.get("killed") or []
    if killed:
        where += f"; killed job {', '.join(map(str, killed))}"
    return render.outcome(arguments.json, answer, where)


def _connect(arguments: argparse.Namespace) -> AbstractContextManager[ApiClient]:
    # A device belongs to the worker that is named, or else to the machine that runs this command.
    is_here = arguments.worker is None
    if is_here and arguments.broker not in (None, homes.LOCAL):
        raise BadInput("a device belongs to one machine: with --broker, add --worker NAME")
    return connect(arguments.broker, local=is_here)


def _list(arguments: argparse.Namespace) -> int:
    with connect(arguments.broker) as client:
        answer = client.get("devices")
    found = [each for each in answer.get("devices", []) if _is_asked(each, arguments)]
    if arguments.json:
        return render.document({**answer, "devices": found})
    if arguments.quiet:
        return render.lines([render.clean(str(each.get("id"))) for each in found]) if found else 0
    if not found:
        return render.line("no devices; `grass device add ID` adds one, and --capacity of `grass daemon` names all")
    _print(found)
    return 0


def _is_asked(each: Mapping[str, Any], arguments: argparse.Namespace) -> bool:
    named = {"worker": arguments.worker, "resource": arguments.resource}
    return all(wanted in (None, each.get(key)) for key, wanted in named.items())


def _print(devices: Sequence[Mapping[str, Any]]) -> None:
    columns = {
        "WORKER": [str(each.get("worker")) for each in devices],
        "DEVICE": [f"{each.get('resource')} {each.get('id')}" for each in devices],
        "STATE": [_state(each) for each in devices],
        "FREE": [_of(each, "free", "worth") for each in devices],
        "VRAM FREE": [_of(each, "vram_free", "vram") for each in devices],
        "JOBS": [" ".join(str(holder.get("job")) for holder in each.get("holders") or []) for each in devices],
    }
    if not any(columns["VRAM FREE"]):
        del columns["VRAM FREE"]
    render.table(list(columns), list(zip(*columns.values(), strict=True)), flexible="JOBS")


def _state(each: Mapping[str, Any]) -> str:
    if each.get("leaving"):
        return "leaving"
    if not each.get("online"):
        return "silent"
    if each.get("drained"):
        return "drained"
    if each.get("others"):
        return "used by others"
    return "busy" if each.get("holders") else "free"


def _of(each: Mapping[str, Any], left: str, whole: str) -> str:
    if not isinstance(each.get(whole), int | float):
        return ""
    return "/".join(f"{each[name]:g}" if isinstance(each.get(name), int | float) else "?" for name in (left, whole))
