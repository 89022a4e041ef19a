"""edit: changes jobs that have not started, in an editor or with --set."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from grassq import home as homes
from grassq.cli import render
from grassq.cli.commands.jobs import edit_text
from grassq.cli.connect import connect
from grassq.core.job_options import JOB_OPTIONS
from grassq.errors import BadInput, GrassError
from grassq.local_times import with_distance
from grassq.net.client import ApiClient, Document
from grassq.net.encoding import word_value

#: The editor if neither VISUAL nor EDITOR is set.
EDITOR = "vi"
NOTHING = "nothing changed"
#: With one of these, only a shell can tell what the first word of $EDITOR is.
SHELL_CHARACTERS = frozenset("$;|&<>()`\"'\\*?[#~=%")
ANSWER_MAX = 100
_REPEATED = {option.name for option in JOB_OPTIONS if option.repeats}


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="the jobs; without --set each by its own text")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="change without an editor; repeat for more: gpu=0.5, priority=40, command='python b.py', env=LR=0.1; "
        "NAME= gives the default",
    )
    parser.add_argument("--json", action="store_true", help="print the jobs after the change as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only ids")
    parser.epilog = (
        "Without --set, $VISUAL or $EDITOR opens the options of each job as TOML. NAME is an option of `grass enqueue` "
        "without its dashes, `command`, or a resource."
    )
    parser.set_defaults(run=edit)


def edit(arguments: argparse.Namespace) -> int:
    """Change the selected jobs and print the result."""
    if not arguments.selectors:
        raise BadInput("name the jobs to edit; see `grass edit --help`")
    with connect(arguments.broker) as client:
        if arguments.set:
            answer = _send(client, arguments.selectors, _typed(arguments.set))
            return _report(arguments, answer)
        found = client.get("jobs/editable", arguments.selectors)
        for job in found["jobs"]:
            answer = _in_editor(client, job)
            _report(arguments, answer)
    return 0


def _send(client: ApiClient, selectors: list[str], values: dict[str, Any], version: str | None = None) -> Document:
    cwd = word_value(homes.Sender.to(client.broker).cwd)
    if isinstance(at := values.get("at"), str):
        with contextlib.suppress(BadInput):  # the broker says what is wrong
            values = {**values, "at": with_distance(at, "at")}
    return client.change("jobs/edit", selectors=selectors, set=values, version=version, cwd=cwd)


def _typed(words: list[str]) -> dict[str, Any]:
    """Return the values of --set by name. An option that repeats becomes a list; variables are set one by one."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        value: object = word_value(os.fsencode(text)) if text else None
        if not name.isprintable() or not name:
            raise BadInput(f"--set needs NAME=VALUE, not {word!r}")
        if not equals:
            value = True
        if name == "env" and text:
            variable, has_value, content = text.partition("=")
            if not variable or not has_value or not variable.isprintable():
                raise BadInput(f"--set env= needs NAME=VALUE, not {text!r}")
            values.setdefault(name, {})[variable] = word_value(os.fsencode(content))
        elif name in values and name not in _REPEATED:
            raise BadInput(f"{name} is set twice")
        elif name in _REPEATED and text:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    return values


def _report(arguments: argparse.Namespace, answer: Document) -> int:
    ids, changed = answer.get("ids", []), answer.get("changed", {})
    if arguments.json:
        render.document(answer)
    elif arguments.quiet:
        render.text("".join(f"{id_}\n" for id_ in ids))
    elif not ids:
        render.line(NOTHING)
    elif changed:
        for id_, what in changed.items():
            render.line(f"job {id_}: {what}")
    else:
        render.line(f"edited {len(ids)} {'job' if len(ids) == 1 else 'jobs'}")
    render.notes(answer.get("notes", []))
    return 0


def _in_editor(client: ApiClient, job: Document) -> Document:
    """Let the user change the text of one job, again while it is refused; a text that is not accepted is kept."""
    text = edit_text.write(job["id"], job["state"], job["values"])
    handle, name = tempfile.mkstemp(prefix=f"grass-edit-{job['id']}-", suffix=".toml")
    path = Path(name)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode())
    while True:
        _open(path, text)
        raw = _read(path)
        try:
            values = edit_text.changes(edit_text.read(text.encode()), edit_text.read(raw))
            answer = _send(client, [str(job["id"])], values, job["version"]) if values else _unchanged()
        except GrassError as error:
            if not _again(error):
                raise type(error)(f"{error}; your text is in {path}") from None
        else:
            path.unlink(missing_ok=True)
            return answer


def _unchanged() -> Document:
    return {"count": 0, "ids": [], "jobs": [], "notes": [], "changed": {}}


def _read(path: Path) -> bytes:
    """Return the text that an editor left; raise GrassError if there is none: the user has given up."""
    try:
        with path.open("rb") as file:
            raw = file.read(edit_text.TEXT_MAX + 1)
    except FileNotFoundError:
        raise GrassError("the editor removed the text; nothing was changed") from None
    if not raw.strip():
        path.unlink(missing_ok=True)
        raise GrassError("the text is empty; nothing was changed")
    return raw


def _kept(path: Path, text: str) -> str:
    """Say where the text is, if there is something in it that would be lost; else remove it."""
    try:
        if path.read_bytes() != text.encode():
            return f"; your text is in {path}"
    except OSError:
        return ""
    path.unlink(missing_ok=True)
    return ""


def _open(path: Path, text: str) -> None:
    """Run the editor of the user on a text; raise GrassError if it fails."""
    environ = homes.environment_text()
    chosen = environ.get("VISUAL") or environ.get("EDITOR")
    if not chosen and not os.isatty(0):
        path.unlink()
        raise BadInput("there is no terminal for an editor; use --set NAME=VALUE, or set $EDITOR")
    editor = chosen or EDITOR
    is_plain = editor.split() and not set(editor) & SHELL_CHARACTERS
    argv = editor.split() if is_plain else ["/bin/sh", "-c", f'{editor} "$@"', editor]
    # Control-C is for the editor; a handler, unlike an ignored signal, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        ended = subprocess.run([*argv, str(path)], check=False).returncode
    except OSError as error:
        _kept(path, text)
        raise GrassError(f"cannot start the editor {editor!r} ({error.strerror}); set $EDITOR, or use --set") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if ended:
        how = f"was killed by signal {-ended}" if ended < 0 else f"failed with exit code {ended}"
        raise GrassError(f"the editor {how}; nothing was changed{_kept(path, text)}")


def _again(error: GrassError) -> bool:
    """Say what is wrong and ask whether to open the editor again; False without a terminal."""
    if not (os.isatty(0) and os.isatty(2)):
        return False
    render.error(str(error))
    render.text("Edit again? [Y/n] ", fd=2)
    try:
        answer = os.read(0, ANSWER_MAX).decode("utf-8", "replace").strip().lower()
    except OSError:
        return False
    return answer in ("", "y", "yes")
