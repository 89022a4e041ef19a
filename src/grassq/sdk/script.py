"""The options that the script of a job gives in its `#GRASS` lines, as arguments of `Client.submit`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from grassq.errors import BadInput
from grassq.inputs.script_options import read_script, refuse_of_enqueue, script_of, split_line
from grassq.sdk.submission import Command, Word, word_bytes

if TYPE_CHECKING:
    from grassq.core.job_options import SubmitOptions
    from grassq.core.syntax.options import GivenOptions

#: Options that have no form in Python, and what to write instead.
_TYPED_ALONE = {
    "request": "--require, which a command line alone reads; write the amounts one by one, as in --gpu 0.5",
    "shell": "--shell, which a command line alone reads; a string is a line for the shell",
}


class ScriptedOptions:
    """The arguments of one submission: those that were given, then those of the script that the command runs."""

    def __init__(
        self, command: Command, options: SubmitOptions, cwd: Any, limits: Mapping[str, int | None] | None = None
    ) -> None:
        """Read the script; `limits` are at_once and max_fails of many jobs."""
        self.options, self.cwd, self.limits = options, cwd, dict(limits or {})
        path = script_of(_words(command), "" if cwd is None or options.get("send") else os.fsdecode(cwd))
        given = None if path is None else read_script(path)
        if path is None or given is None:
            return
        try:
            self._take(path, given)
        except BadInput as error:
            text = str(error)
            raise BadInput(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None

    def _take(self, path: str, given: GivenOptions) -> None:
        from grassq.core.job_options import COMMAND_OPTIONS, JOB_OPTIONS

        refuse_of_enqueue(path, given)
        found = given.fields(JOB_OPTIONS)
        for field, why in _TYPED_ALONE.items():
            if field in found:
                raise BadInput(f"its #GRASS lines have {why}")
        for name, most in given.fields(COMMAND_OPTIONS).items():
            if name not in self.limits:
                raise BadInput(f"its #GRASS lines have {name}, which is of many jobs: use sweep or submit_array")
            if self.limits[name] is None:
                self.limits[name] = most
        if (cwd := found.pop("cwd", None)) is not None and self.cwd is None:
            self.cwd = cwd
        said = {name: value for name, value in self.options.items() if value is not None}
        merged: dict[str, Any] = {**_arguments(found), **said}
        if "warn_s" in said:
            merged["warn_signal"] = said.get("warn_signal")
        for name in ("tags", "env"):
            if name in found:
                merged[name] = {**_keyed(dict(found[name])), **_keyed(cast(Any, said.get(name, {})))}
        asked = {**given.amounts, **cast(Any, said.get("request", {}))}
        merged["request"] = {name: amount for name, amount in asked.items() if name not in said}
        self.options = cast("SubmitOptions", merged)


def _words(command: Command) -> list[str]:
    """Return the words among which a script is looked for; what is no command is refused elsewhere."""
    if isinstance(command, str):
        return split_line(command)
    if not isinstance(command, list | tuple):
        return []
    return [os.fsdecode(word_bytes(word)) for word in command]


def _arguments(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a command line as arguments of `submit`."""
    said = dict(found)
    if (warn := said.pop("warn", None)) is not None:
        said |= {"warn_s": warn.before_s, "warn_signal": warn.signal}
    if "send" in said:
        said["send"] = {os.fsdecode(tree.folder): tree.dest for tree in said["send"]}
    return said


def _keyed(pairs: Mapping[Any, Word]) -> dict[str, Word]:
    """Return pairs by their names as text: a script names variables in bytes, a program mostly in text."""
    return {os.fsdecode(name) if isinstance(name, bytes) else str(name): value for name, value in pairs.items()}
