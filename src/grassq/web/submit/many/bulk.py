"""Bulk submissions: lines or commands that share everything except the command itself."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from grassq.broker.service import Draft
from grassq.core.job_options import JobOptions
from grassq.core.names import shown
from grassq.core.syntax import shell_lines
from grassq.errors import BadInput
from grassq.gc_pause import gc_paused
from grassq.web import requests
from grassq.web.submit.validate import DraftBuilder

#: Shorter commands can be given to any program, unless the environment is large.
SHORT_BYTES = 4096
LARGE_ENVIRONMENT_BYTES = 1 << 20


class JobTemplate:
    """Makes many jobs from one set of options, which is checked once."""

    def __init__(self, options: JobOptions, builder: DraftBuilder) -> None:
        """Check the common options. If they name a shell, every line is for the shell."""
        self._options, self._builder = options, builder
        self.submitter = builder.submitter
        self._request = builder.request_of(options)
        offer = builder.known.offers.get(options.queue)
        self._has_prefix = offer is not None and bool(offer.prefix)
        self._wordless = self._draft(())
        self._words = _pattern(self._wordless)
        self._shell = None if options.shell is None else _pattern(self._draft((), options.shell))
        #: Commands up to this length need no check of their size.
        is_large = len(builder.submitter.env.encoded) > LARGE_ENVIRONMENT_BYTES
        self._unchecked_bytes = 0 if is_large else SHORT_BYTES
        #: Whether each first word met so far names a program.
        self._programs: dict[bytes, bool] = {}
        self._checked: set[bytes] = set()

    def _draft(self, words: tuple[bytes, ...], shell: bytes | None = None) -> Draft:
        return self._builder.draft(words, replace(self._options, shell=shell), self._request)

    def of_line(self, line: bytes) -> Draft:
        """Return the job of one line: plain words that name a program run without a shell, other lines in a shell."""
        if self._options.shell is None and len(line) <= shell_lines.LINE_BYTES_MAX:
            words = shell_lines.plain_words(line)
            if words and self._may_start(words[0]):
                if b"{" in line:
                    self._builder.check_placeholders(words, self._request, self._options.queue)
                if len(line) > self._unchecked_bytes:
                    self._builder.check_size(words, self._options)
                return _with_command(self._words, words)
        return self.of_shell_line(line)

    def of_shell_line(self, line: bytes) -> Draft:
        """Return the job of one line for a shell."""
        shell_lines.check(line)
        if len(line) > self._unchecked_bytes:
            self._builder.check_size((line,), self._options)
        self._builder.check_placeholders((line,), self._request, self._options.queue)
        if self._has_prefix:
            queue = shown(self._options.queue)
            raise BadInput(f"queue {queue} has a command of its own, so it takes plain words, not a line for a shell")
        if self._shell is None:
            self._shell = _pattern(self._draft((), b""))
        return _with_command(self._shell, (line,))

    def of_words(self, words: tuple[bytes, ...]) -> Draft:
        """Return the job of a program and its arguments."""
        if not words and not self._has_prefix:
            raise BadInput("there is nothing to run: the command is empty")
        if not words:
            return self._wordless
        joined = b"".join(words)
        if b"\0" in joined or b"{" in joined or len(joined) + len(words) > self._unchecked_bytes:
            # Rare, and checked as for a single job.
            self._draft(words)
        if words[0] not in self._checked:
            self._draft(words[:1])
            self._checked.add(words[0])
        return _with_command(self._words, words)

    def _may_start(self, word: bytes) -> bool:
        if word not in self._programs:
            is_program = shell_lines.may_be_program(word) and self._is_program(word)
            self._programs[word] = self._has_prefix or is_program
        return self._programs[word]

    def _is_program(self, word: bytes) -> bool:
        if self.submitter.is_remote:
            return True  # only the worker knows its programs
        env, cwd = self._builder.default_env(self._options)
        return self._builder.program_check.is_program(word, env, cwd)


def for_shell(options: JobOptions) -> JobOptions:
    """Return the options of jobs that are lines for the user's shell."""
    return options if options.shell is not None else replace(options, shell=b"")


def _pattern(wordless: Draft) -> Draft:
    """Return what jobs with words have in common, from the job without words."""
    constraints = replace(wordless.spec.constraints, needs_command=False)
    return replace(wordless, spec=replace(wordless.spec, constraints=constraints))


def _with_command(pattern: Draft, command: tuple[bytes, ...]) -> Draft:
    return replace(pattern, spec=replace(pattern.spec, command=command))


def of_lines(text: bytes, template: JobTemplate) -> list[Draft]:
    """Return a job for every line that holds a command; an error names the line."""
    drafts: list[Draft] = []
    most = template.submitter.jobs_max
    with gc_paused():
        for number, line in enumerate(shell_lines.split(text), 1):
            command = shell_lines.command(line)
            if command is None:
                continue
            try:
                drafts.append(template.of_line(command))
            except BadInput as error:
                raise BadInput(f"line {number}: {error}") from None
            if len(drafts) > most:
                where = " from another machine" if template.submitter.is_remote else ""
                raise BadInput(f"line {number}: more than {most:,} commands at once{where}; send them in parts")
    return drafts


def of_commands(commands: Sequence[requests.Command], template: JobTemplate) -> list[Draft]:
    """Return a job for each command, a line or a list of words; an error names the index."""
    template.submitter.check_count(len(commands))
    drafts: list[Draft] = []
    with gc_paused():
        for command in commands:
            try:
                drafts.append(_of_command(command, template))
            except BadInput as error:
                raise BadInput(f"commands[{len(drafts)}]: {error}") from None
    return drafts


def _of_command(command: requests.Command, template: JobTemplate) -> Draft:
    if isinstance(command, list):
        return template.of_words(tuple([w.encode() if isinstance(w, str) else requests.word_bytes(w) for w in command]))
    line = requests.word_bytes(command)
    if not line.strip():
        raise BadInput("there is nothing to run: the command is empty")
    return template.of_line(line)
