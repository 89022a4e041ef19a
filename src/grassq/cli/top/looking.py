"""What keys do that only look: move, open, filter, search, sort, mark."""

from __future__ import annotations

from grassq.cli.top import frame, keys
from grassq.cli.top.drawn_screen import FAILED, JOBS, MACHINES, QUEUES, SWEEPS, TABS
from grassq.cli.top.job_pages import ACTIVE, ORDERS
from grassq.cli.top.typing_line import COLUMNS_, FILTER, SEARCH, TypingLine
from grassq.net.client import ApiClient, compact

#: Bytes that are copied to the clipboard; terminals take no more.
COPY_MAX = 70_000


class Looking(TypingLine):
    """The keys that look."""

    def typed(self, kind: str, value: str) -> None:
        """Do what was typed."""
        if kind == SEARCH:
            self.find(value, forward=False, is_first=True)
        else:
            super().typed(kind, value)

    # Moving.

    def _move(self, by: int) -> None:
        if self.page is not None:
            self.page_top += by
        elif self.query_.tab not in (JOBS, FAILED):
            rows = len(self.small_table()[1])
            self.small_cursor = max(0, min(self.small_cursor + by, rows - 1))
        elif self.is_log_active:
            self.log_pane.move(by)
            if (byte := self.log_pane.older_byte) is not None:
                self.ask_older(byte)
        else:
            self.window.move(by, self.table.rows_shown)
            self.cursor_moved()
            return
        self.sync()

    def _page_rows(self) -> int:
        pane = self.log_pane if self.is_log_active else self.table
        return max(1, (pane.size.height if self.page is None else self.size.height - 4) - 2)

    def do_down(self) -> None:
        """Go to the next job or line."""
        self._move(1)

    def do_up(self) -> None:
        """Go to the previous job or line."""
        self._move(-1)

    def do_page_down(self) -> None:
        """Go to the next page."""
        self._move(self._page_rows())

    def do_page_up(self) -> None:
        """Go to the previous page."""
        self._move(-self._page_rows())

    def do_first(self) -> None:
        """Go to the first job or line."""
        self._jump(to_end=False)

    def do_last(self) -> None:
        """Go to the last job or line."""
        self._jump(to_end=True)

    def _jump(self, *, to_end: bool) -> None:
        is_table = self.page is None and self.query_.tab in (JOBS, FAILED) and not self.is_log_active
        if not is_table:
            self._move(10**6 if to_end else -(10**6))
        elif self.window.jump(to_end=to_end, height=self.table.rows_shown):
            self.cursor_moved()
        elif to_end:
            self.ask_rows(at_end=True)
        else:
            marks = self.window.marks
            self.window.clear()
            self.window.marks = marks
            self.ask_rows()

    def do_left(self) -> None:
        """Move the log to the left."""
        self.log_pane.move_side(-1)

    def do_right(self) -> None:
        """Move the log to the right."""
        self.log_pane.move_side(1)

    def do_pane(self) -> None:
        """Go to the log, or back to the jobs."""
        if self.page is None and self.query_.tab in (JOBS, FAILED):
            self.is_log_active = not self.is_log_active
            self.arrange()

    def _go_to_tab(self, tab: int) -> None:
        self.is_log_active = self.is_zoomed = False
        if tab in (JOBS, FAILED):
            self.show_list(self.query_._replace(tab=tab))
        else:
            self.query_ = self.query_._replace(tab=tab)
            self.page, self.small_cursor = None, 0
            self.arrange()
            self.ask_overview()

    def do_tab_1(self) -> None:
        """Show jobs."""
        self._go_to_tab(JOBS)

    def do_tab_2(self) -> None:
        """Show failed jobs."""
        self._go_to_tab(FAILED)

    def do_tab_3(self) -> None:
        """Show queues."""
        self._go_to_tab(QUEUES)

    def do_tab_4(self) -> None:
        """Show sweeps."""
        self._go_to_tab(SWEEPS)

    def do_tab_5(self) -> None:
        """Show machines."""
        self._go_to_tab(MACHINES)

    # Looking.

    def do_help(self) -> None:
        """Show or hide the help."""
        lines: list[frame.Line] = []
        for shown, words in keys.help_lines(may_change=self.may_change):
            lines.append([(f"   {shown:<10}", "bold"), (words, "")] if words else [(f" {shown}", "bold underline")])
        self.show_page(lines)

    def show_page(self, lines: list[frame.Line]) -> None:
        """Show some lines instead of the panes, or the panes again."""
        self.page = None if self.page is not None else lines
        self.page_top = 0
        self.arrange()

    def do_open(self) -> None:
        """Show the job alone, or the jobs of a queue, sweep or machine."""
        if self.page is not None:
            return
        if self.query_.tab in (JOBS, FAILED):
            if self.window.job is not None:
                self.is_log_active = self.is_zoomed = True
                self.arrange()
            return
        names = self.small_table()[2]
        if names:
            kind = {"queues": "queue", "sweeps": "name", "machines": "worker"}[TABS[self.query_.tab]]
            self.set_filter(f"{kind}:{names[self.small_cursor]}")

    def do_zoom(self) -> None:
        """Let the active pane fill the screen, or show both."""
        self.is_zoomed = not self.is_zoomed
        self.arrange()

    def do_follow(self) -> None:
        """Follow the log, or stay."""
        self.log_pane.follow()
        self.sync()

    def do_filter(self) -> None:
        """Type a filter, or in the log a text to search for."""
        if self.is_log_active:
            self.begin_typing(SEARCH, self.log_pane.searched)
        else:
            self.begin_typing(FILTER, self.filter)

    def find(self, text: str, *, forward: bool, is_first: bool = False) -> None:
        """Go to the next place of a text in the log."""
        if not text:
            self.log_pane.searched = ""
        elif not self.log_pane.search(text, forward=forward, is_first=is_first):
            where = f"among the {self.log_pane.count} lines here; L has the whole log"
            self.say(f"no {'next' if forward else 'previous'} line with {text!r} {where}")
        self.sync()

    def do_next_hit(self) -> None:
        """Go to the next line with the searched text."""
        self.find(self.log_pane.searched, forward=True)

    def do_previous_hit(self) -> None:
        """Go to the previous line with the searched text."""
        self.find(self.log_pane.searched, forward=False)

    def do_sort(self) -> None:
        """Sort in the next order."""
        order = ORDERS[(ORDERS.index(self.query_.order) + 1) % len(ORDERS)]
        self.say(f"sorted: {'running, waiting, ended' if order == ACTIVE else order}")
        self.show_list(self.query_._replace(order=order))

    def do_reverse(self) -> None:
        """Reverse the order."""
        self.show_list(self.query_._replace(is_reversed=not self.query_.is_reversed))

    def do_columns(self) -> None:
        """Type the columns."""
        self.begin_typing(COLUMNS_, " ".join(self.table.widths.titles).lower())

    def do_why(self) -> None:
        """Show all reasons of the job."""
        job = self.window.job
        if self.page is not None:
            self.show_page([])
        elif job is not None:
            id_ = str(job["id"])
            self.asker.ask("whole why", lambda client: _whole_reason(client, id_))

    def do_copy(self) -> None:
        """Copy the marked ids, or the log on the screen."""
        text = ",".join(compact(self.window.marks)) if self.window.marks else self.log_pane.shown_text()
        if len(text.encode()) > COPY_MAX:
            self.say(f"more than {COPY_MAX:,} bytes cannot be copied by the terminal")
            return
        self.copy_to_clipboard(text)
        self.say(f"copied {'the marked ids' if self.window.marks else 'the log on the screen'} (OSC 52)")

    def do_redraw(self) -> None:
        """Ask again and draw anew."""
        self.live.retry()
        self.ask_overview()
        self.ask_rows()
        self.repaint()

    # Marking.

    def do_mark(self) -> None:
        """Mark the job and go on."""
        if self.page is None and self.query_.tab in (JOBS, FAILED):
            self.window.toggle()
            self.window.move(1, self.table.rows_shown)
            self.cursor_moved()

    def do_range(self) -> None:
        """Begin or end a range."""
        self.window.toggle_range()
        self.say("marking: move to the other end, then v" if self.window.range_from is not None else "range ended")
        self.sync()

    def do_clear(self) -> None:
        """End a range, unmark, remove the filter: one of them."""
        if self.page is not None:
            self.show_page([])
        elif self.window.range_from is not None:
            self.window.range_from = None
        elif self.window.marks:
            self.window.marks.clear()
            self.ask_rows()
        elif self.filter:
            self.set_filter("")
        elif self.log_pane.searched:
            self.log_pane.searched = ""
        self.sync()

    def do_back(self) -> None:
        """Go back; from the first screen, quit."""
        if self.page is not None:
            self.show_page([])
        elif self.is_zoomed or self.is_log_active:
            self.is_zoomed = self.is_log_active = False
            self.arrange()
        elif self.filter:
            self.set_filter("")
        elif self.query_.tab != JOBS:
            self._go_to_tab(JOBS)
        else:
            self.exit(0)

    def do_quit(self) -> None:
        """Quit."""
        self.exit(0)

    def do_suspend(self) -> None:
        """Go back to the shell until `fg`."""
        self.action_suspend_process()


def _whole_reason(client: ApiClient, id_: str) -> list[str]:
    found = client.get("why", [id_])["jobs"]
    if not found:
        return []
    lines = [f"{key:<9} {value}" for key, value in (("job", id_), ("state", found[0].get("state"))) if value]
    story = [
        f"  {line.get('at')}  {line.get('kind')}  {line.get('detail') or ''}" for line in found[0].get("story") or []
    ]
    return [*lines, *str(found[0].get("text") or "").splitlines(), "", *story]
