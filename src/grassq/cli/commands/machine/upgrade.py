"""upgrade: a machine over ssh becomes a worker that connects to the broker by itself.

Nothing is changed until Grass is installed there and the broker was reached from there. Then the machine over ssh is
removed, because a worker has its name alone, and the new worker joins with that name. If the new worker does not
connect, the machine over ssh is added again.
"""

from __future__ import annotations

import subprocess
from base64 import encodebytes
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from grassq import __version__
from grassq.cli import render
from grassq.cli.commands.machine import far_scripts
from grassq.cli.commands.machine.wheel import own_wheel
from grassq.cli.progress import progress
from grassq.core.syntax import join_codes
from grassq.errors import GrassError, Refused, Unreachable
from grassq.net.client import ApiClient

#: How long the look at a machine, the installation, and the new worker's first connection may take, in seconds.
LOOK_S = 60.0
INSTALL_S = 900.0
CONNECTED_S = 60.0
ASK_AGAIN_S = 0.5
#: The most characters of what the far side says that a message repeats.
SAID_MAX = 300
STEPS = ("looking", "installing", "moving", "connecting")


def upgrade(client: ApiClient, name: str, *, as_json: bool, is_shown: bool) -> int:
    """Install Grass on a machine and make the machine a full worker of this broker; show progress if `is_shown`."""
    machine = client.machine(name)
    _check(client, name, machine["machine"])
    far = _FarShell(machine["argv"], name)
    with progress(name, is_shown=is_shown) as told:

        def step(word: str) -> None:
            told(STEPS.index(word), len(STEPS), word)

        step("looking")
        code = client.change("tokens/create", scope="worker", name=name, ttl_s=2 * INSTALL_S)
        try:
            addresses = [str(each) for each in join_codes.decode(str(code["code"])).addresses]
            python = _look(far, name, addresses)
            step("installing")
            _install(far, name, python)
            step("moving")
            _move(client, far, name, machine["definition"], str(code["code"]), step)
        except GrassError:
            client.change("tokens/revoke", id=code["id"])
            raise
    done = f"{name} is a worker that connects by itself now; Grass is in ~/{far_scripts.FOLDER} there"
    again = f"after a reboot of {name} it starts with `@reboot ~/{far_scripts.FOLDER}/bin/grass start` in its crontab"
    return render.outcome(as_json, {"name": name, "notes": [again]}, done)


def _check(client: ApiClient, name: str, row: dict[str, Any]) -> None:
    if row.get("state") != "connected":
        raise Refused(f"{name} is not connected now; `grass machine test {name}` says why")
    if jobs := row.get("jobs"):
        run = "1 job runs" if jobs == 1 else f"{jobs} jobs run"
        raise Refused(f"{run} on {name}; `grass drain {name}`, and upgrade when no job runs there")
    if not client.info().get("bind"):
        raise Refused(
            "this broker listens on its own socket only, so no worker can connect to it;"
            " `grass daemon --bind 0.0.0.0` opens it to other machines"
        )


def _look(far: _FarShell, name: str, addresses: list[str]) -> str:
    """Return the Python to use there; raise Refused if there is none, or if the broker is out of reach from there."""
    words = far.run(far_scripts.look(addresses), LOOK_S)
    if "used" in words:
        raise Refused(f"{name} has a Grass of its own ({words['used']}); `grass join` there makes it a worker")
    if not words.get("python"):
        there = words.get("found") or "none"
        raise Refused(f"a worker needs Python 3.11 or newer with venv; on {name} there is {there}; nothing was changed")
    if not words.get("reached"):
        why = words.get("why") or "no answer"
        raise Refused(
            f"{name} cannot reach this broker at {', '.join(addresses)} ({why});"
            f" it stays a machine over ssh, and nothing was changed"
        )
    return words["python"]


def _install(far: _FarShell, name: str, python: str) -> None:
    wheel, content = own_wheel()
    words = far.run(far_scripts.install(python, wheel, encodebytes(content).decode("ascii")), INSTALL_S)
    if words.get("installed") != __version__:
        why = words.get("why") or "no answer"
        raise Refused(f"Grass could not be installed on {name}: {why}; nothing was changed")


def _move(
    client: ApiClient,
    far: _FarShell,
    name: str,
    definition: dict[str, Any],
    code: str,
    step: Callable[[str], None],
) -> None:
    """Remove the machine over ssh, and let the new worker join with its name; undo it if no worker comes."""
    try:
        client.change("machines/remove", name=name)
    except GrassError:
        far.run(far_scripts.uninstall(), LOOK_S)
        raise
    options = [word for label in definition.get("labels", []) for word in ("--label", str(label))]
    if definition.get("capacity"):
        options += ["--capacity", str(definition["capacity"])]
    try:
        step("connecting")
        words = far.run(far_scripts.join(name, code, options), LOOK_S)
        if "joined" not in words:
            raise Refused(words.get("why") or "no answer")
        _await_worker(client, name)
    except GrassError as error:
        far.run(far_scripts.uninstall(), LOOK_S)
        _forget(client, name)
        client.change("machines/add", **definition)
        raise Refused(f"{name} could not become a worker ({error}); it is a machine over ssh as before") from error


def _await_worker(client: ApiClient, name: str) -> None:
    deadline = monotonic() + CONNECTED_S
    while monotonic() < deadline:
        workers = client.get("show").get("workers", [])
        if any(each.get("name") == name and each.get("online") for each in workers):
            return
        sleep(ASK_AGAIN_S)
    raise Unreachable(f"it did not connect within {CONNECTED_S:g} s")


def _forget(client: ApiClient, name: str) -> None:
    """Remove the worker that joined and did not connect, so that its name is free again."""
    if any(each.get("name") == name for each in client.get("show").get("workers", [])):
        client.change("remove-worker", worker=name, lost=True)


class _FarShell:
    """Runs scripts in sh on a machine, over the user's own ssh."""

    def __init__(self, argv: list[str], name: str) -> None:
        program, *words = [word for word in argv if word != "-t"]
        self._argv = [program, "-T", "-o", "BatchMode=yes", *words, "sh"]
        self._name = name

    def run(self, script: str, within_s: float) -> dict[str, str]:
        """Return what a script says: each word with its value. Other lines, such as those of rc files, are dropped."""
        try:
            done = subprocess.run(self._argv, input=script.encode(), capture_output=True, timeout=within_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"{self._name} did not finish within {within_s:g} s") from error
        except OSError as error:
            raise Refused(f"{self._argv[0]} cannot be run: {error.strerror}") from error
        said: dict[str, str] = {}
        for line in done.stdout.decode("utf-8", "backslashreplace").splitlines():
            if line.startswith(far_scripts.MARK):
                word, _, value = line.removeprefix(far_scripts.MARK).partition(" ")
                said[word] = value[:SAID_MAX]
        if not said:
            words = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()[-1:]
            why = words[0][:SAID_MAX] if words else f"exit code {done.returncode}"
            raise Unreachable(f"{self._argv[0]} to {self._name} failed: {why}")
        return said
