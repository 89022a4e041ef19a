"""The screen of `grass top`, headless, before a daemon that answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import localtime, monotonic, strftime
from typing import Any

from tests.top.scripted import Answers, job
from textual.events import Key
from textual.pilot import Pilot

from grassq.cli.job_text import seconds
from grassq.cli.top.app import TopApp
from grassq.cli.top.frame import ASCII, Glyphs
from grassq.cli.top.job_rows import DEFAULT_COLUMNS

DEADLINE_S = 10.0
UNICODE = Glyphs()
Play = Callable[["Stage"], Awaitable[None]]


class Stage:
    """The screen, its keys, and its daemon."""

    def __init__(self, app: TopApp, pilot: Pilot[int], daemon: Answers) -> None:
        self.app, self._pilot, self.daemon = app, pilot, daemon

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        names = {" ": "space", "-": "minus", ":": "colon", "/": "slash", ",": "comma", "=": "equals_sign"}
        await self._pilot.press(*(names.get(each, each) for each in text), "enter")

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    def lines(self) -> list[str]:
        """What the terminal shows."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    def text(self) -> str:
        return "\n".join(self.lines())

    async def sees(self, *texts: str) -> None:
        """Wait until the screen shows some texts."""
        await self.until(lambda: all(text in self.text() for text in texts), f"{texts}")

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = monotonic() + DEADLINE_S
        while not condition():
            assert monotonic() < deadline, f"{what}: never\n{self.text()}"
            assert self.app.failure is None, self.app.failure
            await self._pilot.pause(0.02)


def on_stage(
    daemon: Answers,
    play: Play,
    *,
    size: tuple[int, int] = (100, 30),
    glyphs: Glyphs = UNICODE,
    read_only: bool = False,
) -> TopApp:
    """Play with the screen until the play is over."""

    async def run() -> TopApp:
        app = TopApp(daemon, glyphs, read_only=read_only, filter_="", columns=DEFAULT_COLUMNS)  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await play(Stage(app, pilot, daemon))
        return app

    app = asyncio.run(run())
    assert app.failure is None
    return app


def some_jobs() -> Answers:
    daemon = Answers([job(1, "running"), job(2, "queued"), job(3, "queued"), job(4, "failed", exit_code=3)])
    daemon.logs[1] = b"hello\nstep 1\rstep 2\n"
    return daemon


def test_the_first_screen_shows_devices_jobs_and_the_log_of_the_first_job() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("live", "run 1", "wait 2", "failed 1", "gpu0", "step 2", "train --lr=1")
        lines = stage.lines()
        assert len(lines) == 30 and "quit" in lines[-1] and "step 1" not in stage.text()
        assert [line.split()[0].strip("▸") for line in lines if "train --lr=" in line and "gpu=1" in line] == list(
            "1234"
        )

    on_stage(some_jobs(), play)


def test_the_screen_is_whole_at_any_size() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("step 2")
        for width, height in ((200, 60), (80, 24), (40, 12), (20, 5), (80, 24)):
            await stage.resize(width, height)
            await stage.until(lambda: len(stage.lines()) == height, f"{width}x{height}")  # noqa: B023
            await stage.press("j", "k", "tab", "tab")
        await stage.sees("live", "▸1", "log 1", "help")

    on_stage(some_jobs(), play)


def test_a_change_is_seen_and_the_cursor_stays_on_its_job() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1", "step 2")
        await stage.press("j", "j")
        await stage.sees("▸3")
        stage.daemon.change(job(2, "running"), job(9, "running", name="fresh"))
        await stage.sees("▸3", "fresh")
        await stage.until(lambda: "waits for gpu" in stage.text(), "the reason of job 3")

    on_stage(some_jobs(), play)


def test_a_kill_asks_first_and_y_does_it_once() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1")
        await stage.press("K")
        await stage.sees("kill job 1 (train --lr=1)?")
        await stage.press("j")
        await stage.sees("nothing was done", "▸1")
        assert stage.daemon.changes == []
        await stage.press("K", "y")
        await stage.until(lambda: stage.daemon.changes, "the kill")
        await stage.sees("1 job asked to end")
        assert stage.daemon.changes == [("jobs/kill", {"selectors": ["1"]})]

    on_stage(some_jobs(), play)


def test_marks_are_acted_on_together_and_hold_the_order() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1")
        await stage.press("space", "space")
        await stage.sees("2 marked")
        stage.daemon.change(job(3, "running"))
        stage.daemon.change(job(2, "failed"))
        await stage.until(lambda: stage.app.window.rows[1].job["state"] == "failed", "the news of job 2")
        assert stage.app.window.ids() == [1, 2, 3, 4]
        await stage.press("H")
        await stage.sees("hold 2 jobs?")
        await stage.press("n", "escape")
        await stage.until(lambda: stage.app.window.ids()[:2] == [1, 3], "the order after the marks are gone")
        await stage.press("asterisk")
        await stage.sees("4 jobs are marked")
        await stage.press("R", "y")
        await stage.until(lambda: stage.daemon.changes, "the rerun")
        assert stage.daemon.changes == [("jobs/rerun", {"selectors": ["1-4"]})]

    on_stage(some_jobs(), play)


def test_a_filter_narrows_and_escape_brings_everything_back() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1")
        await stage.press("slash")
        await stage.type("failed")
        await stage.sees("/failed", "▸4")
        assert stage.app.window.ids() == [4]
        await stage.press("escape")
        await stage.until(lambda: stage.app.window.ids() == [1, 2, 3, 4], "all jobs")
        await stage.press("slash")
        await stage.type("nothing like this")
        await stage.sees("no job matches")

    on_stage(some_jobs(), play)


def test_a_lost_daemon_is_said_with_the_time_and_what_is_shown_stays() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("● live", "step 2")
        stage.daemon.leave()
        await stage.sees("not live since", "train --lr=1", "step 2", "S starts it")
        stage.daemon.is_away = False
        stage.daemon.jobs[7] = job(7, "running", name="meanwhile")
        await stage.sees("● live", "meanwhile")

    on_stage(some_jobs(), play)


def test_without_a_daemon_it_says_so_and_offers_to_start_one() -> None:
    daemon = some_jobs()
    daemon.is_away = True

    async def play(stage: Stage) -> None:
        await stage.sees("no daemon runs", "S starts it")

    on_stage(daemon, play)


def test_read_only_refuses_keys_and_commands_in_one_line_until_rw() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("read-only", "▸1")
        assert "kill" not in stage.lines()[-1]
        await stage.press("K")
        await stage.sees("K changes nothing", ":rw")
        await stage.press("colon")
        await stage.type("kill 1")
        await stage.sees("`kill` may change something")
        await stage.press("colon")
        await stage.type("notify --test x")
        await stage.sees("`notify` may change something")
        await stage.press("colon")
        await stage.type("rw")
        await stage.press("K")
        await stage.sees("kill job 1")

    on_stage(some_jobs(), play, read_only=True)


def test_a_token_that_may_only_read_has_no_keys_that_change() -> None:
    daemon = some_jobs()
    daemon.scope = "read"

    async def play(stage: Stage) -> None:
        await stage.sees("read-only", "▸1")
        await stage.press("K")
        await stage.sees("your token may only read")
        await stage.press("colon")
        await stage.type("rw")
        await stage.press("K", "y")
        await stage.sees("your token may only read")
        assert stage.daemon.changes == []

    on_stage(daemon, play)


def test_forecasts_say_when_a_job_starts_and_ends_and_an_older_daemon_is_not_asked_again() -> None:
    def at(minute: int) -> str:
        return f"2036-01-01T12:{minute:02}:00.000Z"

    daemon = some_jobs()
    interval = {"low": at(10), "likely": at(14), "high": at(22)}
    daemon.forecasts = [
        {"id": 1, "state": "running", "starts": None, "ends": interval},
        {"id": 2, "state": "queued", "starts": interval, "ends": None},
        {"id": 3, "state": "queued", "starts": None, "ends": None},
    ]

    async def play(stage: Stage) -> None:
        about = f"~{strftime('%b %d %H:%M', localtime(seconds(at(14))))} (±6m)"
        await stage.sees(f"ends {about}", f"starts {about}", f"next {about} #2")

    on_stage(daemon, play, size=(140, 30))
    older = some_jobs()

    async def play_older(stage: Stage) -> None:
        await stage.until(lambda: "eta" in stage.daemon.asked, "the question")
        await stage.sees("step 2")
        assert "there is no eta" not in stage.text()

    on_stage(older, play_older)


def test_hostile_texts_are_text() -> None:
    evil = "[red]x[/red] \x1b[2J\x1b]52;c;aGk=\x07 \u202egnol [@click=app.quit]q[/] \n\r\t"
    daemon = Answers([job(1, "running", name=evil, command=[evil], reason=evil, queue=evil, last_line=evil)])
    daemon.logs[1] = evil.encode() + b"\xff\xfe\x00\x1b]0;title\x07\x1b[31mred\x1b[0m [bold]b[/bold]\n" + b"A" * 200_000

    async def play(stage: Stage) -> None:
        await stage.sees("[red]x[/red]", "[bold]b[/bold]", "AAAA")
        text = "".join(stage.lines())
        assert text.isprintable(), [each for each in text if not each.isprintable()]
        assert all(len(line) <= 100 for line in stage.lines())
        await stage.press("w", "q", "question_mark", "q", "enter", "q", "Y")

    on_stage(daemon, play)


def test_ascii_draws_ascii_only() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("* live", ">1", "####")
        assert stage.text().isascii()

    on_stage(some_jobs(), play, glyphs=ASCII)


def test_tabs_help_and_pages_lead_back_to_the_jobs() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1")
        for key, text in (("3", "LIMITS"), ("4", "2/8"), ("5", "USED BY OTHERS"), ("2", "▸4"), ("1", "▸1")):
            await stage.press(key)
            await stage.sees(text)
        await stage.press("question_mark")
        await stage.sees("Moving", "next job or line", "more lines; j and PgDn go on")
        await stage.press("q", "3", "enter")
        await stage.sees("/queue:default", "▸1")
        await stage.press("w")
        await stage.sees("waits for gpu")

    on_stage(some_jobs(), play)


def test_the_command_line_completes_and_says_what_is_wrong() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1")
        await stage.press("colon", "k", "i")
        await stage.sees("kill")
        await stage.press("tab")
        assert stage.app.prompt.value == "kill "
        await stage.type("1-2")
        await stage.sees("run `grass kill 1-2`?")
        await stage.press("n", "colon")
        await stage.type("kil 3")
        await stage.sees("there is no command 'kil'; did you mean 'kill'?")

    on_stage(some_jobs(), play)


def test_lines_from_before_the_screen_was_opened_come_when_the_user_goes_up() -> None:
    daemon = some_jobs()
    daemon.logs[1] = b"".join(b"line %d\n" % at for at in range(1, 2301))

    async def play(stage: Stage) -> None:
        await stage.sees("line 2300")
        await stage.press("tab", "g")
        await stage.sees("line 1301")
        while stage.app.log_pane.count < 2300:
            before = stage.app.log_pane.count
            await stage.press("g")
            await stage.until(lambda: stage.app.log_pane.count > before, "older lines")  # noqa: B023
        await stage.press("g")
        await stage.sees("line 1", "line 2")
        await stage.press("G")
        await stage.sees("line 2300", "ended")

    on_stage(daemon, play)


def test_no_key_is_lost_when_a_command_is_typed_faster_than_the_screen() -> None:
    async def play(stage: Stage) -> None:
        await stage.sees("▸1")
        for key in ("colon", *"kill", "space", "3"):
            character = {"colon": ":", "space": " "}.get(key, key)
            stage.app.post_message(Key(key, character))
        await stage.until(lambda: stage.app.prompt.value == "kill 3", "the whole command")

    on_stage(some_jobs(), play)


def test_a_log_can_be_scrolled_searched_and_followed_again() -> None:
    daemon = some_jobs()
    daemon.logs[1] = b"".join(b"line %d\n" % at for at in range(500))

    async def play(stage: Stage) -> None:
        await stage.sees("line 499")
        await stage.press("tab", "pageup")
        await stage.sees("f follows")
        assert "line 499" not in stage.text()
        await stage.press("slash")
        await stage.type("line 77")
        await stage.sees("line 77")
        await stage.press("G")
        await stage.sees("line 499")

    on_stage(daemon, play)
