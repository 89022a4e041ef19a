"""What people type about machines over ssh: add, list, test, retry, remove and shell."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grassq import home as homes
from grassq.cli import render
from grassq.cli.connect import connect
from grassq.cli.fast import current_home
from grassq.cli.help import text_of
from grassq.cli.inputs import machine_file
from grassq.cli.main import Parser
from grassq.cli.synonyms import as_typed
from grassq.core.syntax.addresses import PORT_MAX
from grassq.core.syntax.options import closest
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, BadInput, Refused
from grassq.net.client import ApiClient

#: Words of other tools for an action.
_OTHER_WORDS = {
    **dict.fromkeys(("ls", "show", "status", "ps"), "list"),
    **dict.fromkeys(("create", "new", "register", "join"), "add"),
    **dict.fromkeys(("rm", "del", "delete", "forget"), "remove"),
    **dict.fromkeys(("check", "ping", "doctor", "probe"), "test"),
    **dict.fromkeys(("ssh", "login", "exec", "run", "connect"), "shell"),
    **dict.fromkeys(("reconnect", "again"), "retry"),
}
_OPTIONS = ("--label", "--capacity", "--port", "--key", "--dir", "--no-python", "--accept-key", "--force", "--json")


def words(name: str, argv: list[str]) -> int:
    """Run one action; without words, list the machines."""
    action, rest = (argv[0], argv[1:]) if argv and not argv[0].startswith("-") else ("list", argv)
    if action not in _ACTIONS:
        raise _unknown(action, rest)
    if any(word in ("-h", "--help") for word in (rest[:1] if action == "shell" else rest)):
        return render.text(text_of(name))
    return _ACTIONS[action](rest)


def _unknown(action: str, rest: list[str]) -> BadInput:
    ours = _OTHER_WORDS.get(action) or closest(action, _ACTIONS.keys() - {"remove", "upgrade"})
    if ours is None:
        return BadInput(f"there is no `grass machine {action}`; it is {', '.join(_ACTIONS)}")
    return BadInput(
        f"there is no `grass machine {action}`; did you mean: grass machine {ours} {as_typed(rest)}".rstrip()
    )


def _parser(action: str) -> Parser:
    parser = Parser(prog=f"grass machine {action}", allow_abbrev=False, add_help=False)
    if action != "list":
        parser.add_argument("name", metavar="NAME", nargs="?")
    parser.add_argument("--broker", metavar="ADDRESS")
    parser.add_argument("--json", action="store_true")
    return parser


def _read(parser: Parser, argv: list[str]) -> argparse.Namespace:
    """Return the words of an action; the errors name what a person meant: ssh has options too."""
    typed, extra = parser.parse_known_intermixed_args(argv)
    if extra and extra[0].startswith("-"):
        near = closest(extra[0].partition("=")[0], _OPTIONS) if extra[0].startswith("--") else None
        hint = f"did you mean '{near}'?" if near else "options of ssh belong into ~/.ssh/config"
        raise BadInput(f"there is no option '{extra[0]}' of `{parser.prog}`; {hint}")
    if extra:
        raise BadInput(f"`{parser.prog}` takes no word '{extra[0]}'; see `grass machine --help`")
    if "name" in typed and typed.name is None:
        raise BadInput(f"name the machine: {parser.prog} NAME")
    return typed


@contextmanager
def _own_daemon(typed: str | None) -> Iterator[ApiClient]:
    """Yield a client of this machine's own daemon; refuse if commands go to a broker elsewhere."""
    home = current_home()
    if (broker := homes.broker(home, typed)) is not None:
        why = f" ({homes.broker_named_by(home)})" if typed is None else ""
        own = "" if homes.joined(home) else "; for this machine's own queue add `--broker local`"
        raise Refused(f"machines are kept on the machine of the broker, with the keys there: {broker}{why}{own}")
    with connect(local=True) as client:
        yield client


def _add(argv: list[str]) -> int:
    parser = _parser("add")
    parser.add_argument("target", metavar="TARGET", nargs="?")
    parser.add_argument("--label", action="append", default=[])
    parser.add_argument("--capacity")
    parser.add_argument("--port", type=_port)
    parser.add_argument("--key")
    parser.add_argument("--dir")
    parser.add_argument("--no-python", action="store_true")
    parser.add_argument("--accept-key", action="store_true")
    typed = _read(parser, argv)
    definition = {**_way(typed), "labels": typed.label, "capacity": typed.capacity, "dir": typed.dir}
    definition |= {"no_python": typed.no_python, "agent": homes.ssh_agent()}
    with _own_daemon(typed.broker) as client:
        answer = client.change("machines/add", name=typed.name, accept_key=typed.accept_key, **definition)
        if answer.get("status") == "unknown_key":
            _ask_about_key(answer)
            answer = client.change("machines/add", name=typed.name, **definition)
    if answer.get("status") == "unknown_key":
        raise _not_accepted(answer)
    answer.pop("ask", None)
    if typed.json:
        return render.document(answer)
    status = answer.get("status")
    render.line(f"machine {typed.name} is {status}" if status != "added" else f"added machine {typed.name}")
    for line in answer.get("found", []):
        render.line(f"  {line}")
    return EXIT_OK


def _way(typed: argparse.Namespace) -> dict[str, object]:
    """Return the way to a machine: as typed, of a machine file, or the name as a host of ~/.ssh/config."""
    word = typed.target
    if word is None:
        word = typed.name
        if "@" in word or "//" in word or machine_file.is_file_word(word):
            raise BadInput(f"a machine needs a name first: grass machine add NAME {as_typed([word])}")
    if not machine_file.is_file_word(word):
        return {"target": word, "port": typed.port, "identity": None if typed.key is None else _key(typed.key)}
    if typed.port is not None or typed.key is not None:
        raise BadInput(f"{word} says the port and the key; --port and --key go with user@host")
    found = machine_file.read(machine_file.find(word))
    host = f"[{found.host}]" if ":" in found.host else found.host
    return {"target": f"{found.user}@{host}", "port": found.port, "identity": found.key}


def _key(typed: str) -> str:
    path = Path(typed).expanduser()
    if not path.is_file():
        raise BadInput(f"--key {typed}: there is no such file; it is the private key, such as ~/.ssh/id_ed25519")
    return os.path.abspath(path)  # noqa: PTH100 - a link stays a link


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port from 1 to {PORT_MAX}")
    return int(text)


def _ask_about_key(answer: Mapping[str, Any]) -> None:
    """Let ssh itself ask about the key of a host, on this terminal; without a terminal, refuse."""
    ask = answer.get("ask")
    if not isinstance(ask, list) or not ask or not (os.isatty(0) and os.isatty(2)):
        raise _not_accepted(answer)
    # `true` there ends the login at once, whatever the login shell is.
    subprocess.run([*map(str, ask), "true"], check=False)


def _not_accepted(answer: Mapping[str, Any]) -> Refused:
    found = answer.get("found")
    words = str(found[0]) if isinstance(found, list) and found else "the host key is not known"
    return Refused(f"{words}; nothing was added")


def _list(argv: list[str]) -> int:
    typed = _read(_parser("list"), argv)
    with _own_daemon(typed.broker) as client:
        answer = client.get("machines")
    if typed.json:
        return render.document(answer)
    rows = answer.get("machines", [])
    if not rows:
        return render.line("no machines; `grass machine add NAME user@host` adds one")
    headers = ["NAME", "HOST", "STATE", "JOBS", "RUNS", "HAS", "LABELS"]
    render.table(headers, [_row(each) for each in rows], flexible="HAS", whole="NAME")
    for each in rows:
        if each.get("why"):
            render.line(f"{each.get('name')}: {each.get('why')}")
    return EXIT_OK


def _row(each: Mapping[str, Any]) -> list[str]:
    labels = ",".join(map(str, each.get("labels") or []))
    name, host, state, runs, has = (str(each.get(key) or "") for key in ("name", "host", "state", "runs", "offers"))
    jobs = "?" if each.get("jobs") is None else str(each["jobs"])
    return [name, host, state, jobs, runs.rpartition("/")[2], has, labels]


def _test(argv: list[str]) -> int:
    typed = _read(_parser("test"), argv)
    failed = 0
    with _own_daemon(typed.broker) as client:
        for line in client.machine_test(typed.name, homes.ssh_agent()):
            failed += line.get("ok") is False
            if typed.json:
                render.text(json.dumps(line) + "\n")
            else:
                mark = "ok" if line.get("ok") is True else "fail" if line.get("ok") is False else ""
                render.line(f"{mark:<5}{line.get('step')}: {line.get('words')}")
    return EXIT_JOB_FAILED if failed else EXIT_OK


def _retry(argv: list[str]) -> int:
    typed = _read(_parser("retry"), argv)
    with _own_daemon(typed.broker) as client:
        answer = client.change("machines/retry", name=typed.name, agent=homes.ssh_agent())
    return render.outcome(typed.json, answer, f"{typed.name} is tried again now; `grass machine list` shows its state")


def _remove(argv: list[str]) -> int:
    parser = _parser("remove")
    parser.add_argument("--force", action="store_true")
    typed = _read(parser, argv)
    with _own_daemon(typed.broker) as client:
        answer = client.change("machines/remove", name=typed.name, force=typed.force)
    left = answer.get("left")
    lines = [f"left there: {each}" for each in left] if isinstance(left, list) else []
    sentence = f"removed machine {typed.name}"
    return render.outcome(
        typed.json, {**answer, "notes": lines}, sentence + ("" if lines else "; nothing is left there")
    )


def _shell(argv: list[str]) -> int:
    if not argv or argv[0].startswith("-"):
        raise BadInput("name the machine first: grass machine shell NAME [COMMAND...]")
    name, command = argv[0], argv[2:] if argv[1:2] == ["--"] else argv[1:]
    with _own_daemon(None) as client:
        argv = [str(word) for word in client.machine(name)["argv"]]
    if command and not (os.isatty(0) and os.isatty(1)):
        argv = [word for word in argv if word != "-t"]  # a terminal there would change the bytes of a pipe
    try:
        os.execvp(argv[0], [*argv, *command])
    except OSError as error:
        raise Refused(f"{argv[0]} cannot be run: {error.strerror}; the setting `ssh` names the program") from error


def _upgrade(argv: list[str]) -> int:
    from grassq.cli.commands.machine.upgrade import upgrade

    typed = _read(_parser("upgrade"), argv)
    with _own_daemon(typed.broker) as client:
        return upgrade(client, typed.name, as_json=typed.json, is_shown=os.isatty(2))


_ACTIONS = {
    "add": _add,
    "list": _list,
    "test": _test,
    "retry": _retry,
    "remove": _remove,
    "shell": _shell,
    "upgrade": _upgrade,
}
