/** What one view of a log knows: its lines, its place, what is marked, and what is searched for. */

import { effect, signal } from "@preact/signals";
import { remembered } from "../../settings";
import { type LogChoice, LogLines } from "./lines";
import { LogPlace } from "./place";
import { type Asked, LogSearch } from "./search";

/** Pixels of a line. */
export const LINE_HEIGHT = 18;
/** Lines shown above a line that was asked for. */
const ABOVE = 6;

export interface Marked {
  first: number;
  last: number;
}

/** Whether long lines are broken; this browser remembers it. */
const wraps = remembered<boolean>("log-wraps", false, (value) => (typeof value === "boolean" ? value : undefined));

export class LogController {
  readonly lines: LogLines;
  readonly search: LogSearch;
  readonly place = new LogPlace(LINE_HEIGHT);
  readonly wraps = wraps;
  /** Grows when the pane is to be drawn again. */
  readonly changes = signal(0);
  readonly isFollowing = signal(true);
  readonly marked = signal<Marked | null>(null);
  /** Lines that came since following ended. */
  readonly newLines = signal(0);
  scrolledAt = 0;
  /** A line that is to be shown as soon as lines are counted. */
  private wanted: number | null = null;
  /** The rows when following ended; null before anything was heard. */
  private rowsAtPause: number | null = null;

  constructor(choice: LogChoice) {
    this.lines = new LogLines(choice, () => (this.place.isAtEnd ? null : this.heldByte));
    this.search = new LogSearch(choice);
  }

  /**
   * Hear the log until the answer is called. Only an effect of a view calls this: a view that goes before its effects
   * ran is never told to end anything.
   */
  start(): () => void {
    let isCounted = true;
    const ends = [
      this.lines.start(),
      effect(() => {
        const state = this.lines.state.value;
        const isOtherForm = isCounted !== state.isCounted;
        isCounted = state.isCounted;
        this.place.setTotal(state.rows);
        // The same line stays at the top when the list changes its form.
        if (isOtherForm && isCounted && !this.place.isAtEnd && this.lines.countedRow !== null) {
          this.place.toRow(this.lines.countedRow);
          this.place.stay();
        }
        if (state.isKnown && isOtherForm) this.rowsAtPause = null;
        if (state.isKnown) this.rowsAtPause ??= state.rows;
        this.newLines.value = this.isFollowing.peek() ? 0 : Math.max(0, state.rows - (this.rowsAtPause ?? state.rows));
        this.showWanted();
      }),
      effect(() => {
        void this.wraps.value;
        this.place.forgetHeights();
        this.place.remeasure();
        this.redraw();
      }),
      () => this.search.stop(),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  redraw(): void {
    this.changes.value = this.changes.peek() + 1;
  }

  /** A person has scrolled: at the end the log is followed, elsewhere not. */
  moved(): void {
    if (this.place.isAtEnd !== this.isFollowing.peek()) {
      if (this.place.isAtEnd) this.follow();
      else this.pause();
    }
    this.redraw();
  }

  follow(): void {
    this.isFollowing.value = true;
    this.newLines.value = 0;
    this.lines.follow();
    this.place.toEnd();
    this.redraw();
  }

  pause(): void {
    this.place.stay();
    if (!this.isFollowing.peek()) return;
    this.isFollowing.value = false;
    const { isKnown, rows } = this.lines.state.peek();
    this.rowsAtPause = isKnown ? rows : null;
    // Whoever looks back needs every line, not the last ones.
    this.lines.count();
  }

  /** Show a line by its number, now or when lines are counted. */
  show(line: number): void {
    this.pause();
    this.wanted = line;
    this.showWanted();
  }

  toTop(): void {
    this.show(1);
  }

  /** Search the whole log, and show the nearest hit from here on, or else the nearest one before. */
  find(asked: Asked): void {
    const here = this.lines.line(this.place.row)?.n ?? 1;
    void this.search.run(asked, here, (line) => this.show(line));
  }

  /** Show the next or the previous hit. */
  step(by: 1 | -1): void {
    void this.search.step(by, (line) => {
      this.show(line);
      this.redraw();
    });
  }

  private showWanted(): void {
    const { rows, isCounted } = this.lines.state.peek();
    if (this.wanted === null || !isCounted || !rows) return;
    const row = Math.min(this.wanted, rows) - 1;
    this.wanted = null;
    if (!this.place.isVisible(row)) this.place.toRow(row, ABOVE);
    this.place.stay();
    this.redraw();
  }

  /** The byte where the first visible line begins. */
  heldByte: number | null = null;
}
