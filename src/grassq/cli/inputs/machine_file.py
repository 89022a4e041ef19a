"""A machine in a YAML file, as ml-scheduler writes it: username, ip, port and ssh_key_path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from grassq.core.syntax.addresses import PORT_MAX, wrong_ssh_host, wrong_ssh_user
from grassq.core.syntax.numbers import is_number
from grassq.errors import BadInput
from grassq.inputs.files import read_file

#: The folder that is searched after the current one, below the user's directory.
FOLDER = ".local/var"
SUFFIX = ".yaml"
SUFFIXES = (SUFFIX, ".yml")
FILE_MAX = 64 << 10
KEYS = ("username", "ip", "port", "ssh_key_path")
_KEYS_TEXT = ", ".join(KEYS)


class MachineFile(NamedTuple):
    """What such a file says; `key` is an absolute path."""

    path: str
    user: str
    host: str
    port: int
    key: str


def find(word: str) -> str:
    """Return the file that a word names: the word, the word with .yaml, and both in ~/.local/var."""
    below = Path("~", FOLDER).expanduser()
    for place in (Path(word).expanduser(), below / word):
        for path in (place, place.with_name(place.name + SUFFIX) if place.name else place):
            if path.is_file():
                return str(path)
    names = word if word.endswith(SUFFIXES) else f"{word} or {word}{SUFFIX}"
    raise BadInput(f"there is no machine file {names}, neither here nor in {below}")


def read(path: str) -> MachineFile:
    """Return what a machine file says; raise BadInput with the first mistake, in one line."""
    found = _document(path)
    if missing := [key for key in KEYS if found.get(key) is None]:
        raise BadInput(f"{path}: {missing[0]} is missing; a machine file has {_KEYS_TEXT}")
    user, host, key = (_text(path, name, found[name]) for name in ("username", "ip", "ssh_key_path"))
    if wrong := wrong_ssh_host("ip", host) or wrong_ssh_user("username", user):
        raise BadInput(f"{path}: {wrong}")
    return MachineFile(path, user, host, _port(path, found["port"]), _key(path, key))


def is_file_word(word: str) -> bool:
    """Tell whether a word is meant as a machine file, and not as a host: it ends like one, or it is a path."""
    return word.endswith(SUFFIXES) or ("/" in word and not word.startswith("ssh://"))


def _document(path: str) -> dict[Any, Any]:
    import yaml  # slow to load, and only this command needs it

    data = read_file(path, FILE_MAX, f"a machine file has {_KEYS_TEXT}")
    try:
        found = yaml.safe_load(data)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" line {error.problem_mark.line + 1}"
        raise BadInput(f"{path}{line} is not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not YAML: {' '.join(str(error).split())[:100]}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path} does not describe a machine: it has lines such as `username: ann`, for {_KEYS_TEXT}")
    return found


def _text(path: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{path}: {name} is {_shown(value)}, not text; put it into quotes")
    if not value or not value.isprintable():
        raise BadInput(f"{path}: {name} is {_shown(value)}, not a word")
    return value


def _port(path: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and is_number(value, 5) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= PORT_MAX:
        raise BadInput(f"{path}: port is {_shown(value)}; it is a number from 1 to {PORT_MAX}")
    return number


def _key(path: str, typed: str) -> str:
    """Return the absolute path of the key; refuse a key that ssh would refuse."""
    key = Path(typed).expanduser()
    try:
        status = key.stat()
        if not key.is_file():
            raise BadInput(f"{path}: ssh_key_path {typed} is not a file")
        os.close(os.open(key, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise BadInput(f"{path}: ssh_key_path {typed} cannot be read: {error.strerror}") from error
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        raise BadInput(f"{path}: others may read the key {typed}, so ssh does not use it; `chmod 600 {typed}`")
    return os.path.abspath(key)  # noqa: PTH100 - a link stays a link: the user may change where it leads


def _shown(value: object) -> str:
    """Return a value of the file for a message: short, and of a list or a mapping only what it is."""
    if isinstance(value, dict | list):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    return repr(value)[:60]
