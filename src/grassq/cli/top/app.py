"""TopApp: the screen of `grass top`, with the keys that change jobs and the command line."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from grassq import home as homes
from grassq.cli import render
from grassq.cli.logs.pager import PAGER, pager_words
from grassq.cli.top import frame
from grassq.cli.top.drawn_screen import FAILED, JOBS, QUEUES
from grassq.cli.top.feeds.asker import Answered
from grassq.cli.top.job_pages import NEWEST, read, resolve, segments_of
from grassq.cli.top.job_window import MARKS_MAX
from grassq.cli.top.line_input import ASKED, changes, needs_terminal, split_command
from grassq.cli.top.looking import Looking
from grassq.cli.top.typing_line import COMMAND, PRIORITY
from grassq.core.syntax.commands import BY_NAME
from grassq.errors import BadInput, GrassError, Unreachable
from grassq.net.client import ApiClient, compact
from grassq.net.encoding import query

#: Characters of a command's output that are shown, and how many seconds a command may take.
OUTPUT_MAX = 100_000
COMMAND_S = 120.0

#: What an action did, in a word.
DONE = {"kill": "asked to end", "rerun": "submitted again", "hold": "held", "release": "released"}


class Confirmation(NamedTuple):
    """A question in the last line that `y` answers."""

    words: str
    act: Callable[[], None]


class TopApp(Looking):
    """The whole screen."""

    question: Confirmation | None = None
    _has_offered = False

    def lost(self) -> None:
        """Offer once to start a daemon that is not there."""
        if self.daemon.broker is None and "no daemon" in self.news.why and not self._has_offered:
            self._has_offered = True
            self.say("no daemon runs here; S starts it (`grass start`), q quits", "bold yellow")

    def found(self) -> None:
        """Offer to start the daemon again when it goes away the next time."""
        self._has_offered = False

    def _handle_exception(self, error: Exception) -> None:
        """End the screen in order; `run` says what happened and where the details are."""
        self.failure = self.failure or error
        self.exit(1)
        super()._close_messages_no_wait()

    # Questions.

    def ask_user(self, words: str, act: Callable[[], None]) -> None:
        """Ask in the last line; `y` acts, any other key does nothing."""
        self.question = Confirmation(words, act)
        self.sync()

    def take_answer_key(self, key: str) -> bool:
        """Take a key as the answer to the question."""
        if self.question is None:
            return False
        question, self.question = self.question, None
        if key in ("y", "Y"):
            question.act()
        else:
            self.say("nothing was done")
        self.sync()
        return True

    def foot_line(self, width: int) -> frame.Line:
        """Return the last line: a question, a message, or the keys."""
        if self.question is not None:
            answers = "  y yes, any other key no"
            room = width - len(answers)
            words = frame.fit(f" {frame.text(self.question.words)}", room, self.glyphs.dots).rstrip()
            return [(words, "bold yellow"), (answers, "bold")]
        return super().foot_line(width)

    # Changing.

    def _act(self, verb: str, ids: Sequence[int], **values: object) -> None:
        """Ask, then change jobs, once."""
        if not ids:
            self.say("no job is selected")
            return
        count = f"{len(ids):,} jobs" if len(ids) > 1 else f"job {ids[0]}"
        if len(ids) == 1 and (job := self.window.job) is not None and job["id"] == ids[0]:
            count += f" ({frame.job_title(job)})"
        extra = f" to {values['priority']}" if "priority" in values else ""
        selectors = compact(ids)

        def change(client: ApiClient) -> str:
            answer = client.change(f"jobs/{verb}", selectors=selectors, **values)
            return _told(verb, answer)

        self.ask_user(
            f"{'set the priority of' if verb == 'priority' else verb} {count}{extra}?",
            lambda: self.doer.ask("act", change),
        )

    def do_kill(self) -> None:
        """Kill the marked jobs, or this one."""
        self._act("kill", self.window.chosen())

    def do_rerun(self) -> None:
        """Submit them again."""
        self._act("rerun", self.window.chosen())

    def do_hold(self) -> None:
        """Hold them, or release them if the first of them is held."""
        ids = self.window.chosen()
        known = {row.place.id: row.job for row in self.window.rows}
        is_held = bool(ids) and (known.get(ids[0]) or {}).get("state") == "held"
        self._act("release" if is_held else "hold", ids)

    def do_priority(self) -> None:
        """Type the priority."""
        if self.window.chosen():
            self.begin_typing(PRIORITY)

    def do_pause(self) -> None:
        """Pause the queue of the job, or the queue under the cursor; or let it go on."""
        queue = self._queue_here()
        if queue is None:
            self.say("no queue is selected")
            return
        known = [each for each in self.overview.get("queues") or [] if each.get("name") == queue]
        verb = "resume" if any(each.get("paused") for each in known) else "pause"

        def change(client: ApiClient) -> str:
            client.change(verb, queue=queue)
            return f"queue {queue} {'goes on' if verb == 'resume' else 'is paused'}"

        self.ask_user(f"{verb} the queue {queue}?", lambda: self.doer.ask("act", change))

    def _queue_here(self) -> str | None:
        if self.query_.tab == QUEUES:
            names = self.small_table()[2]
            return names[self.small_cursor] if names else None
        job = self.window.job
        return str(job["queue"]) if job is not None and self.query_.tab in (JOBS, FAILED) else None

    def do_mark_all(self) -> None:
        """Mark every job that the filter shows."""
        asked, resolved = self.query_, self._resolved
        queues = [str(queue.get("name")) for queue in self.overview.get("queues") or []]

        def every(client: ApiClient) -> tuple[object, list[int], bool]:
            meaning = resolved if resolved is not None else resolve(client, asked.wanted, queues)
            chain = segments_of(meaning, NEWEST, states=("failed",) if asked.tab == FAILED else ())
            ids: list[int] = []
            place, resume, is_end = None, None, False
            while not is_end and len(ids) < MARKS_MAX:
                found = read(
                    lambda pairs: client.get("jobs" + query(pairs)), chain, place, down=True, count=500, resume=resume
                )
                ids += [row.place.id for row in found.rows]
                place, resume, is_end = found.rows[-1].place if found.rows else place, found.resume, found.is_end
            return asked, ids[:MARKS_MAX], is_end

        self.say("marking every job that is listed")
        self.doer.ask("marks", every)

    def done(self, answer: Answered) -> None:
        """Take the answer to a change, or to a question about one job."""
        if answer.kind == "marks":
            asked, ids, is_end = answer.value
            if asked == self.query_:
                is_whole = self.window.mark(ids) and is_end
                rest = "" if is_whole else f"; no more than {MARKS_MAX:,} can be marked"
                self.say(f"{len(self.window.marks):,} jobs are marked{rest}")
                self.sync()
        elif answer.kind == "whole why":
            self.show_page([[(f" {frame.text(line)}", "")] for line in answer.value])
        elif answer.kind == "command":
            self._show_output(*answer.value)
        else:
            self.window.marks.clear()
            self.window.range_from = None
            self.say(answer.value)
            self.ask_rows()
            self.ask_overview()

    # The command line.

    def do_command(self) -> None:
        """Type a command."""
        self.begin_typing(COMMAND)

    def do_start(self) -> None:
        """Start the daemon, if none runs here."""
        if self.daemon.broker is not None:
            self.say("a broker on another machine is started there")
        elif self.news.is_live:
            self.say("the daemon runs")
        else:
            self._run(["start"])

    def typed(self, kind: str, value: str) -> None:
        """Do what was typed."""
        if kind == PRIORITY:
            if not value.lstrip("-").isdecimal() or len(value) > 9:
                raise BadInput(f"{value!r} is not a priority; larger is sooner, 30 is neutral")
            self._act("priority", self.window.chosen(), priority=int(value))
        elif kind == COMMAND:
            self._command(split_command(value))
        else:
            super().typed(kind, value)

    def _command(self, words: list[str]) -> None:
        match words:
            case []:
                return
            case ["q" | "quit"]:
                self.exit(0)
            case ["help"]:
                self.do_help()
            case ["ro" | "rw"]:
                self.is_read_only = words == ["ro"]
                self.say("read-only" if not self.may_change else "keys may change jobs again")
                self.sync()
            case _ if changes(words) and not self.may_change:
                why = "`:rw` switches this off" if self.is_read_only else "your token may only read"
                raise BadInput(f"read-only: `{words[0]}` may change something; {why}")
            case _ if words[0] in ASKED:
                self.ask_user(f"run `grass {shlex.join(words)}`?", lambda: self._run(words))
            case _:
                self._run(words)

    def _argv(self, words: Sequence[str]) -> list[str]:
        broker = self.daemon.broker
        named = [] if broker is None or BY_NAME[words[0]].is_local else ["--broker", broker]
        # Before the other words, because some commands take all that follow as words of a job.
        return [sys.executable, "-m", "grassq", words[0], *named, *words[1:]]

    def _run(self, words: list[str]) -> None:
        """Run a command of grass: on the terminal if the command needs it, else beside the screen."""
        argv = self._argv(words)
        if needs_terminal(words):
            self._on_terminal([argv], waits=True)
            return
        shown = f"grass {shlex.join(words)}"
        environment = {**homes.environment_text(), "COLUMNS": str(max(40, self.size.width - 2))}
        self.say(f"{shown} ...")
        self.doer.ask("command", lambda client: _output(shown, argv, environment))

    def _on_terminal(self, commands: Sequence[Sequence[str]], *, waits: bool = False) -> None:
        """Give the terminal to some commands, each reading what the one before writes; `waits` for Enter after them."""
        with self.suspend():
            # Ctrl-C is for the commands. A handler, because the commands would inherit that the signal is ignored.
            before = signal.signal(signal.SIGINT, lambda number, frame: None)
            try:
                _pipe(commands)
                if waits:
                    render.text("-- Enter goes back to top --")
                    sys.stdin.readline()
            except OSError as error:
                self.say(f"{commands[-1][0]}: {error.strerror}", "red")
            finally:
                signal.signal(signal.SIGINT, before)

    def do_pager(self) -> None:
        """Show the whole log in the pager, as people see it."""
        job = self.window.job
        if job is not None:
            pager = pager_words() or PAGER.split()
            self._on_terminal([self._argv(["log", "--lines", "1-", str(job["id"])]), pager])

    def _show_output(self, shown: str, code: int, lines: list[str]) -> None:
        self.live.retry()
        if len(lines) <= 1:
            self.say(f"{shown}: {lines[0] if lines else 'done'}", "red" if code else "")
        else:
            self.page = None
            self.message = ("", "")
            title: frame.Line = [(f" {frame.text(shown)}", "bold"), (f"  exit code {code}" if code else "", "red")]
            self.show_page([title, [], *([(f" {frame.text(line)}", "")] for line in lines)])
        self.ask_overview()
        self.ask_rows()


def _told(verb: str, answer: Mapping[str, Any]) -> str:
    """Return what an action did, with the first note of the daemon."""
    count = len(answer.get("ids") or [])
    notes = [str(note) for note in answer.get("notes") or []]
    if verb == "priority":
        words = f"{count} {'job has' if count == 1 else 'jobs have'} the new priority"
    else:
        words = f"{count} {'job' if count == 1 else 'jobs'} {DONE[verb]}"
    return "; ".join([words, *notes[:1]])


def _output(shown: str, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, int, list[str]]:
    """Run a command to its end; return its exit code and the lines it printed."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{shown} did not end within {COMMAND_S:g} s and was ended") from None
    except OSError as error:
        raise GrassError(f"{shown} cannot be run: {error.strerror}") from None
    text = done.stdout[:OUTPUT_MAX].decode("utf-8", "backslashreplace")
    lines = [line.rstrip() for line in text.splitlines()]
    if len(done.stdout) > OUTPUT_MAX:
        lines.append(f"(only the first {OUTPUT_MAX:,} bytes are shown)")
    return shown, done.returncode, lines


def _pipe(commands: Sequence[Sequence[str]]) -> None:
    """Run commands on the terminal, each reading what the one before writes, and wait for the last."""
    processes: list[subprocess.Popen[bytes]] = []
    for at, argv in enumerate(commands):
        before = processes[-1].stdout if processes else None
        out = subprocess.PIPE if at < len(commands) - 1 else None
        processes.append(subprocess.Popen(argv, stdin=before, stdout=out))
        if before is not None:
            before.close()
    processes[-1].wait()
    for process in processes[:-1]:
        process.terminate()
        process.wait()
