"""What is sent of a submission: the words of its command, and its options."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grassq import home as homes
from grassq.errors import BadInput
from grassq.home import BLOBS_NAME
from grassq.net.encoding import word_value

if TYPE_CHECKING:
    from grassq.core.job_options import SubmitOptions

#: A word of a command, or a value of the environment; a number is written as `str` writes it.
Word = str | bytes | int | float | os.PathLike[str]
#: A program and its arguments, or a line.
Command = Sequence[Word] | str

_FUNCTION = (
    "a job is a command, not a Python function: put the function into a script and submit"
    " [sys.executable, 'script.py', ...]; the script's $GRASS_RESULT_FILE becomes job.result()"
)


def command_document(command: Command, shell: bool | None) -> dict[str, Any]:
    """Return a command as sent. Without `shell`, a string is a line for the shell and a list is not."""
    is_line = isinstance(command, str)
    if shell and not is_line:
        raise BadInput("a line for the shell is one string: use shlex.join(words), or leave out shell=True")
    words = written_words([command] if isinstance(command, str) else command)
    return {"command": words, "shell": is_line if shell is None else shell}


def written_line(command: Command) -> Any:
    """Return a command of `submit_many` as sent: a string is a line, a list is words."""
    return written_words([command])[0] if isinstance(command, str) else written_words(command)


def written_words(words: Sequence[Word]) -> list[str | dict[str, str]]:
    """Return the words of a command as sent."""
    if isinstance(words, bytes):
        raise BadInput("a command is a list of words, or a string for the shell; bytes alone could be either")
    if callable(words) or not isinstance(words, Iterable):
        raise TypeError(
            _FUNCTION if callable(words) else f"{words!r} is not a command: give a list of words or a string"
        )
    # Most words are plain ASCII: no encoding and no call per word.
    written = [word if word.__class__ is str and word.isascii() else word_value(word_bytes(word)) for word in words]
    if not written or (isinstance(written[0], str) and not written[0].strip()):
        raise BadInput("a command is empty")
    return written


def word_bytes(word: Word) -> bytes:
    """Return a word as bytes; raise BadInput for what is neither text, a path nor a number."""
    if isinstance(word, str | bytes | os.PathLike):
        return os.fsencode(word)
    # By `Number`, not by `int | float`: NumPy's numbers are registered there.
    if isinstance(word, Number) and not isinstance(word, complex):
        return str(word).encode()
    raise BadInput(f"{word!r} is {type(word).__name__}; a word is text, bytes, a path or a number")


def options_document(options: SubmitOptions, home: str, broker: str | None) -> dict[str, Any]:
    """Return the options as sent to the daemon, without those that were not given; store the folders of `send`."""
    # Imported at the first submit: waiting and reading logs do not need it.
    from grassq.core.job_options import SubmitOptions
    from grassq.core.syntax.resource_names import COMMON_RESOURCES

    if strange := options.keys() - SubmitOptions.__annotations__.keys():
        raise _no_argument(min(strange), SubmitOptions.__annotations__)
    said: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    amounts = {name: said.pop(name) for name in sorted(COMMON_RESOURCES) if name in said}
    request = {**said.get("request", {}), **amounts}
    said["request"] = {name: _amount(value) for name, value in request.items()}
    said["tags"] = {str(key): str(value) for key, value in said.get("tags", {}).items()}
    said["labels"] = list(said.get("labels", ()))
    for name in ("fetch", "setup_files"):
        said[name] = [word_value(os.fsencode(path)) for path in _paths(said.get(name, ()))]
    for name in ("fetch_to", "python", "setup", "output"):
        if name in said:
            said[name] = word_value(os.fsencode(said[name]))
    if "project" not in said and (project := (homes.project() if broker is not None else "") or homes.tree_project()):
        # The environment is not sent to a broker; the local daemon reads GRASS_PROJECT in it.
        said["project"] = project
    if "wrap" in said:
        wrap = said["wrap"]
        said["wrap"] = word_value(os.fsencode(wrap if isinstance(wrap, str | bytes) else shlex.join(wrap)))
    said |= _waiting_document(said)
    notify = said.get("notify", ())
    said["notify"] = [notify] if isinstance(notify, str) else list(notify)
    said["send"] = _send_document(said.get("send", ()), home, broker)
    env = said.get("env", {})
    said["env"] = [[word_value(word_bytes(name)), word_value(word_bytes(value))] for name, value in env.items()]
    return {name: value for name, value in said.items() if value not in ("", [], {})}


def _waiting_document(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say when a job starts, as sent."""
    found: dict[str, Any] = {}
    for name in ("after", "after_any", "after_fail"):
        if name in said:
            given = said[name] if isinstance(said[name], list | tuple | set | frozenset) else [said[name]]
            found[name] = [str(getattr(each, "id", each)) for each in given]
    for name in ("retry_on", "no_retry_on"):
        if name in said:
            words = said[name].split(",") if isinstance(said[name], str) else said[name]
            found[name] = [str(word).strip() for word in words]
    if "retry_delay_s" in said:
        delay = said["retry_delay_s"]
        found["retry_delay_s"] = [delay, delay] if isinstance(delay, Number) else list(delay)
    if "at" in said:
        at = said["at"]
        found["at"] = at.timestamp() if hasattr(at, "timestamp") else at
    return found


def _paths(given: Any) -> list[Any]:
    return [given] if isinstance(given, str | bytes | os.PathLike) else list(given)


def sent_manifests(folders: Iterable[Any], home: str, broker: str | None) -> list[str]:
    """Store the content of folders, each a path or a word of an answer, and return their manifests."""
    if broker is not None:
        raise BadInput(f"send needs a broker on this machine: the broker at {broker} cannot read your files")
    from base64 import b64decode

    from grassq.files.blobs import BlobStore
    from grassq.files.snapshot import snapshot

    blobs = BlobStore(os.fsencode(f"{home}/{BLOBS_NAME}"))
    paths = [b64decode(each["b64"]) if isinstance(each, dict) else os.fsencode(each) for each in folders]
    return [snapshot(path, blobs).id for path in paths]


def _send_document(send: Any, home: str, broker: str | None) -> list[dict[str, Any]]:
    """Store the content of folders, and return the folders as sent to the daemon."""
    if not send:
        return []
    places = send if isinstance(send, Mapping) else dict.fromkeys(_paths(send), "")
    folders = [os.fsencode(Path(os.fsdecode(given)).absolute()) for given in places]
    return [
        {"manifest": id_, "folder": word_value(folder), "dest": word_value(os.fsencode(dest))}
        for id_, folder, dest in zip(sent_manifests(folders, home, broker), folders, places.values(), strict=True)
    ]


def env_words(env: Mapping[str, Word]) -> list[bytes]:
    """Return variables as they are typed: NAME=value."""
    return [word_bytes(name) + b"=" + word_bytes(value) for name, value in env.items()]


def edit_document(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of an edit as sent to the daemon."""
    said = dict(changes)
    waiting = _waiting_document({name: value for name, value in said.items() if value is not None})
    said |= {name: waiting[name] for name in ("after", "after_any", "after_fail", "at") if name in waiting}
    said |= {name: ",".join(waiting[name]) for name in ("retry_on", "no_retry_on") if name in waiting}
    if "retry_delay_s" in waiting:
        said["retry_delay_s"] = "..".join(f"{delay}s" for delay in waiting["retry_delay_s"])
    return {name: _changed(value) for name, value in said.items()}


def _changed(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {os.fsdecode(word_bytes(name)): _changed(each) for name, each in value.items()}
    if isinstance(value, (str, bytes, os.PathLike, Number)):
        return word_value(word_bytes(value))  # type: ignore[arg-type]  # NumPy's numbers are numbers too
    return [word_value(word_bytes(each)) for each in value]


def _amount(value: object) -> object:
    # A number of another package is no JSON; as text it is exact.
    return str(value) if isinstance(value, Number) and not isinstance(value, int | float) else value


def _no_argument(name: str, known: Iterable[str]) -> TypeError:
    from grassq.core.syntax.options import closest

    meant = closest(name, [*known, "cwd", "key", "shell", "wait_for_queue"])
    hint = f"did you mean {meant}? " if meant else ""
    return TypeError(f"submit has no argument {name!r}; {hint}A resource of your own goes into request={{{name!r}: 1}}")


def key_of_part(key: str | None, at: int) -> str | None:
    """Return the key of the part that begins at an index; a repeated call makes the same keys."""
    if key is None or not at:
        return key
    from hashlib import sha256

    return sha256(f"{key} {at}".encode()).hexdigest()[:32]
