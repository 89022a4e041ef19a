"""What is not sent: the rules of .grassignore files, which are those of .gitignore.

A rule of a deeper file wins over a rule of a higher one, and a later line over an earlier one. Nothing below an
ignored folder can be named again by a rule with `!`. The folders of ALWAYS are not sent, whatever the rules say.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from grassq.errors import BadInput
from grassq.files import globs
from grassq.files.names import shown

#: The name of a file with rules, in any folder of a tree.
FILE_NAME = b".grassignore"
#: Names that are never sent: the history of a project, and the results of earlier jobs.
ALWAYS = frozenset({b".git", b"job_results"})
#: What unfinished work of ours is called, beside the files that it is for.
OURS = re.compile(rb"\.grass-(?:fetch|tree)-[0-9a-f]+.*", re.DOTALL)
#: The longest file with rules, and the most rules of one file.
BYTES_MAX = 1 << 20
RULES_MAX = 10_000


class Rule(NamedTuple):
    """One line of a file with rules."""

    regex: re.Pattern[bytes]
    #: The line begins with `!`: what matches is sent again.
    sends: bool
    #: The line ends with a slash: only folders match.
    only_folders: bool


class Rules(NamedTuple):
    """The rules of one folder's file; paths are given below that folder."""

    folder: bytes
    rules: tuple[Rule, ...]


def parse(folder: bytes, text: bytes) -> Rules:
    """Return the rules of a file's text; `folder` is where the file lies in the tree, b"" for its root."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rules = tuple(rule for line in lines if (rule := _rule(line)))
    if len(text) > BYTES_MAX or len(rules) > RULES_MAX:
        where = shown(folder + b"/" + FILE_NAME if folder else FILE_NAME)
        raise BadInput(f"{where} has more than {RULES_MAX:,} rules or {BYTES_MAX >> 20} MiB")
    return Rules(folder, rules)


def _rule(line: bytes) -> Rule | None:
    line = line.removesuffix(b"\r")
    while line.endswith(b" ") and not line.endswith(b"\\ "):
        line = line[:-1]
    if line.startswith(b"#"):
        return None
    sends = line.startswith(b"!")
    glob = line[1:] if sends else line
    only_folders = glob.endswith(b"/")
    glob = glob.rstrip(b"/") if only_folders else glob
    if not glob:
        return None
    if b"/" not in glob:
        glob = b"**/" + glob  # a name alone matches at every depth
    return Rule(globs.regex(glob.lstrip(b"/")), sends, only_folders)


def is_ignored(path: bytes, is_folder: bool, files: list[Rules]) -> bool:
    """Tell whether a path is not sent; `files` are the rules from the root down to the path's folder."""
    name = path.rpartition(b"/")[2]
    if name in ALWAYS or OURS.fullmatch(name):
        return True
    for found in reversed(files):
        below = path[len(found.folder) + 1 :] if found.folder else path
        for rule in reversed(found.rules):
            if (is_folder or not rule.only_folders) and rule.regex.fullmatch(below):
                return not rule.sends
    return False
