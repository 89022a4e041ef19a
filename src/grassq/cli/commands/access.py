"""join, login, use, token, audit: access to brokers."""

from __future__ import annotations

import argparse
import datetime
import os
import pwd
from collections.abc import Mapping
from typing import Any

from grassq import home
from grassq.cli import job_text, render
from grassq.cli.commands.daemon import work_for
from grassq.cli.connect import connect
from grassq.cli.fast import complain
from grassq.cli.inputs.code_input import one_time_code
from grassq.core.syntax.addresses import parse_addresses
from grassq.core.syntax.durations import duration_s
from grassq.errors import EXIT_OK, BadInput, GrassError, NotFound
from grassq.net import broker as remote_broker
from grassq.net import broker_file, redeem
from grassq.net.client import ApiClient

NAME_MAX = 64
TTL_S = 3600.0
SCOPES = ("read", "submit", "admin", "worker")


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    if name in ("join", "login"):
        _build_redeem(name, parser)
    elif name == "logout":
        parser.add_argument("broker", metavar="HOST", help="the broker to forget")
        parser.set_defaults(run=logout)
    elif name == "use":
        parser.add_argument(
            "broker", metavar="HOST", nargs="?", help="the broker, or local (default: print the current one)"
        )
        parser.set_defaults(run=use)
    elif name == "token":
        _build_token(parser)
    else:
        parser.add_argument("--last", metavar="N", type=int, default=20, help="only the last N entries (default: 20)")
        parser.set_defaults(run=audit)
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")


def _build_redeem(name: str, parser: argparse.ArgumentParser) -> None:
    code = "the code that the broker or `grass token create` printed (default, and for -: ask for it, or read stdin)"
    parser.add_argument("code", metavar="CODE", nargs="?", help=code)
    whose = "this machine's name as a worker (default: its host name)" if name == "join" else "your name there"
    parser.add_argument("--name", metavar="NAME", help=whose)
    parser.add_argument(
        "--broker", metavar="ADDRESS", help="the address of the broker, if not one of those in the code"
    )
    if name == "join":
        again = "join as a new worker, although this machine is already a worker of the broker"
        parser.add_argument("--again", action="store_true", help=again)
        # The former name of the option.
        parser.add_argument("--anew", action="store_true", dest="again", help=argparse.SUPPRESS)
    parser.set_defaults(run=exchange, kind="worker" if name == "join" else name)


def _build_token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", nargs="?", default="list", help="list (default), create or revoke")
    parser.add_argument("id", metavar="ID", nargs="?", help="the token to revoke")
    parser.add_argument("--scope", metavar="SCOPE", choices=SCOPES, help="read, submit (default), admin or worker")
    parser.add_argument("--queue", metavar="QUEUE", action="append", help="allow only this queue; repeat for more")
    parser.add_argument(
        "--bare", action="store_true", help="allow queues without a command too: the token may run any program"
    )
    priority_max = "the highest priority that the token may give to a job (default: the broker's setting, 30)"
    parser.add_argument("--priority-max", metavar="N", type=int, help=priority_max)
    parser.add_argument("--kill", action="store_true", help="revoke: end the token's jobs too, also those that run")
    parser.add_argument("--name", metavar="NAME", help="a name for the token")
    parser.add_argument("--ttl", metavar="DURATION", help="how long the code is valid (default: 1h)")
    parser.add_argument("-q", "--quiet", action="store_true", help="print ids or the code alone")
    parser.set_defaults(run=token)


def exchange(arguments: argparse.Namespace) -> int:
    """Exchange a code for a token: `join` makes this machine a worker of the broker, `login` is for its user."""
    is_join = arguments.kind == "worker"
    code = one_time_code(arguments.code, "join" if is_join else "login")
    name = arguments.name or (_as_name(os.uname().nodename.split(".")[0]) if is_join else _user())
    again = is_join and arguments.again
    found = redeem.redeem(
        home.current(), code, arguments.kind, name=name, at=arguments.broker, again=again, tell=complain
    )
    if arguments.json:
        notes = work_for(home.current(), found) if is_join else []
        return render.document({**_public(found), "notes": notes})
    at = found.addresses[0]
    done = f"joined {at} as worker {found.name}" if is_join else f"logged in at {at} as {found.name} ({found.scope})"
    render.line(done)
    if arguments.name not in (None, found.name):
        render.notes([f"the name {arguments.name} was not given: it is taken, or the code was made for {found.name}"])
    if is_join:
        for line in work_for(home.current(), found):
            render.line(line)
        return EXIT_OK
    return render.line(f"to use it: grass show --broker {at}, or for all commands: grass use {at}")


def logout(arguments: argparse.Namespace) -> int:
    """Forget the login at a broker, and end its token there if the broker can be reached."""
    directory = home.current()
    addresses = parse_addresses(arguments.broker, "the broker")
    entry = broker_file.load(directory).at(addresses[0])
    if entry is None or entry.login is None:
        raise NotFound(f"there is no login at {addresses[0]}; `grass doctor` lists the brokers that this user knows")
    notes: list[str] = []
    try:
        with ApiClient(directory, broker=str(addresses[0]), tell=complain) as client:
            client.change("logout")
    except GrassError as error:
        token = entry.login.token.partition(".")[0]
        notes.append(f"its token is still good there ({error}); on the broker `grass token revoke {token}` ends it")
    is_ended, forgotten = not notes, [str(each) for each in remote_broker.forget_login(directory, addresses[0])]
    used = (home.broker(directory) or "").split(",")
    if home.broker_named_by(directory) == "`grass use`" and not set(used).isdisjoint(forgotten):
        broker_file.choose(directory, None)
        notes.append("commands go to this machine's own daemon again")
    render.notes(notes)
    answer = {"addresses": forgotten, "ended": is_ended}
    return render.outcome(arguments.json, answer, f"logged out of {addresses[0]}")


def use(arguments: argparse.Namespace) -> int:
    """Choose the broker that commands go to, or print the current one."""
    directory = home.current()
    if arguments.broker is not None:
        _choose(directory, arguments.broker)
    broker = home.broker(directory)
    named = home.broker_named_by(directory)
    if arguments.json:
        return render.document({"broker": broker, "named_by": named.strip("`") or None})
    if broker is None:
        return render.line("commands go to this machine's own daemon")
    back = "" if home.joined(directory) else "; `--broker local` or `grass use local` for this machine"
    render.line(f"commands go to {broker} ({named}){back}")
    if arguments.broker is not None and named == "GRASS_BROKER":
        render.notes(["GRASS_BROKER is set and comes before `grass use`"])
    return EXIT_OK


def _choose(directory: str, text: str) -> None:
    if text == home.LOCAL:
        return broker_file.choose(directory, None)
    addresses = parse_addresses(text, "the broker")
    remote_broker.credential(directory, addresses, "login")  # raises, with the way to log in, if there is no token
    broker_file.choose(directory, ",".join(map(str, addresses)))


def token(arguments: argparse.Namespace) -> int:
    """List tokens, create a code for a new token, or revoke a token."""
    actions = {"list": _list, "create": _create, "revoke": _revoke}
    if arguments.action not in actions:
        raise BadInput(f"there is no `grass token {arguments.action}`; it is list, create or revoke")
    if (arguments.id is not None) != (arguments.action == "revoke"):
        raise BadInput(
            "`grass token revoke` takes the ID of one token, the other actions take none; `grass token` lists the ids"
        )
    if arguments.kill and arguments.action != "revoke":
        raise BadInput("--kill goes with `grass token revoke`")
    return actions[arguments.action](arguments)


def _list(arguments: argparse.Namespace) -> int:
    with connect(arguments.broker) as client:
        answer = client.get("tokens")
    if arguments.json:
        return render.document(answer)
    tokens = answer.get("tokens", [])
    if arguments.quiet:
        for each in tokens:
            render.line(str(each["id"]))
        return EXIT_OK
    if not tokens:
        return render.line("no tokens; `grass token create` creates a code for one")
    now = job_text.now()
    headers = ["ID", "KIND", "SCOPE", "NAME", "QUEUES", "JOBS", "STATE", "CREATED", "EXPIRES"]
    render.table(headers, [_row(each, now) for each in tokens])
    return EXIT_OK


def _row(each: Mapping[str, Any], now: float) -> list[str]:
    kind = "code" if each.get("is_code") else "page" if each.get("page_of") else "token"
    queues = "all" if each.get("queues") is None else ",".join(map(str, each["queues"]))
    bare = " (any program)" if each.get("bare") else ""
    state = "live" if each.get("live") else "ended" if each.get("ended") else "expired"
    times = [job_text.clock(each.get("created"), now), job_text.clock(each.get("expires"), now)]
    is_submit = each.get("scope") == "submit"
    words = [str(each.get(key) or "") for key in ("scope", "name")]
    jobs = str(each.get("jobs") or "")
    return [str(each.get("id")), kind, *words, queues + bare if is_submit else "", jobs, state, *times]


def _create(arguments: argparse.Namespace) -> int:
    ttl_s = TTL_S if arguments.ttl is None else duration_s(arguments.ttl, "--ttl")
    scope = arguments.scope or "submit"
    if scope != "submit" and (arguments.queue or arguments.bare or arguments.priority_max is not None):
        raise BadInput(f"--queue, --bare and --priority-max are for submit tokens, not for a {scope} token")
    with connect(arguments.broker) as client:
        answer = client.change(
            "tokens/create",
            scope=scope,
            name=arguments.name,
            queues=arguments.queue,
            bare=arguments.bare,
            priority_max=arguments.priority_max,
            ttl_s=ttl_s,
        )
    if arguments.json:
        return render.document(answer)
    render.line(str(answer.get("code")))
    if arguments.quiet:
        return EXIT_OK
    verb = "join" if scope == "worker" else "login"
    until = job_text.clock(answer.get("expires"), job_text.now())
    where = "on the new worker" if scope == "worker" else "on the user's machine"
    render.notes(
        [f"`grass {verb}` {where} asks for this code" + (f", until {until}" if until else "") + "; it works once"]
    )
    return EXIT_OK


def _revoke(arguments: argparse.Namespace) -> int:
    with connect(arguments.broker) as client:
        answer = client.change("tokens/revoke", id=arguments.id, kill=arguments.kill)
    id_ = str(answer.get("id"))
    sentence = id_ if arguments.quiet else f"token {id_} ({answer.get('name')}) is revoked"
    render.outcome(arguments.json, answer, sentence)
    if not arguments.quiet:
        render.notes(_left_behind(id_, answer))
    return EXIT_OK


def _left_behind(token_id: str, answer: Mapping[str, Any]) -> list[str]:
    """Say what became of the jobs of a revoked token."""
    held, killed, running = (int(answer.get(name) or 0) for name in ("held", "killed", "running"))
    said = []
    if held:
        said.append(
            f"{_jobs(held)} held; `grass show token:{token_id}` lists them, and `grass release` lets them go on"
        )
    if killed:
        said.append(f"{_jobs(killed)} asked to end")
    elif running:
        said.append(f"{_jobs(running)} running still; `grass kill token:{token_id}` ends all jobs of the token")
    return said


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"


def audit(arguments: argparse.Namespace) -> int:
    """Print the audit log."""
    if arguments.last < 1:
        raise BadInput("--last takes a count of entries, 1 or more")
    with connect(arguments.broker) as client:
        answer = client.get("audit", last=arguments.last)
    entries = answer.get("entries", [])
    if arguments.json:
        return render.document(answer)
    if not entries:
        return render.line("no changes yet")
    now = job_text.now()
    headers = ["AT", "WHO", "NAME", "FROM", "WHAT", "ABOUT", "RESULT"]
    render.table(headers, [_entry(each, now) for each in entries], flexible="WHAT")
    return EXIT_OK


def _entry(entry: Mapping[str, Any], now: float) -> list[str]:
    at = entry.get("at")
    if isinstance(at, int | float):
        at = datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat()
    what = f"{entry.get('method', '')} {entry.get('path', '')}".strip()
    if entry.get("missed"):
        what += f" (and {entry['missed']} more like it before)"
    who, name, peer, about, result = (str(entry.get(key, "")) for key in ("who", "name", "peer", "about", "result"))
    return [job_text.clock(at, now), who, name, peer, what, about, result]


def _public(found: remote_broker.Credential) -> dict[str, object]:
    return {
        "addresses": [str(address) for address in found.addresses],
        "fingerprint": found.fingerprint.hex(),
        "store_id": found.store_id,
        "name": found.name,
        "scope": found.scope,
    }


def _user() -> str:
    try:
        return _as_name(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return f"uid-{os.geteuid()}"


def _as_name(text: str) -> str:
    # A host or user name may contain characters that a name in Grass may not.
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in text)
    return plain.lstrip("_.-")[:NAME_MAX] or "nameless"
