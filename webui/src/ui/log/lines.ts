/**
 * The lines of one log that are needed: the end, which the daemon tells as it changes, and windows of any other place,
 * which are asked for when they are looked at. A bounded number of windows is kept.
 */

import { signal } from "@preact/signals";
import { get, words } from "../../api/client";
import type { Schemas } from "../../api/types";
import { type LogFrame, type LogLine, onLog } from "../../live/live";

/** Lines of the end that the daemon tells, of one window, and the windows that are kept. */
export const TAIL_LINES = 300;
export const WINDOW_LINES = 250;
const WINDOWS_MAX = 40;
/** Lines before the end that a terminal program may still write over. */
const UNSETTLED_LINES = 100;
/** How often it is asked whether the lines of a long log are counted. */
const COUNT_MS = 700;
/** After so many failures in a row nobody counts any more, until somebody looks back again. */
const FAILURES_MAX = 20;
/** A window that could not be had is asked for again after this long. */
const AGAIN_MS = 1_000;

export type LogChoice = Omit<Schemas["LogWish"], "lines">;

type LinesAnswer = Schemas["LogLines"];

interface Window {
  lines: (LogLine | undefined)[];
  /** How many lines the log had when the window was read. */
  total: number;
}

export interface LogState {
  /** Rows of the list: all lines if they are counted, else the last ones. */
  rows: number;
  isCounted: boolean;
  /** Whether anything was heard of this log. */
  isKnown: boolean;
  attempt: number | null;
  stream: string | null;
  size: number;
  isFinal: boolean;
  error: string | null;
  /** How much of a long log was counted, from 0 to 1; null if all is counted, or nobody asked. */
  counted: number | null;
  version: number;
}

const BEGIN: LogState = {
  rows: 0,
  isCounted: true,
  isKnown: false,
  attempt: null,
  stream: null,
  size: 0,
  isFinal: false,
  error: null,
  counted: null,
  version: 0,
};

export class LogLines {
  readonly state = signal<LogState>(BEGIN);
  private tail: LogLine[] = [];
  /** The end as the daemon told it last, while the list stands still in another form. */
  private heard: LogLine[] = [];
  private windows = new Map<number, Window>();
  private asked = new Map<number, AbortController>();
  private counting: ReturnType<typeof setTimeout> | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
  private ended = new AbortController();
  /** Whether the lines stay that are there, although the end goes on without numbers. */
  private isHeld = false;
  /** Whether the list was counted by a question, while the daemon tells lines without numbers. */
  private isCountedHere = false;

  /** The row that was at the top before lines were counted. */
  countedRow: number | null = null;

  /** `heldByte` says where the first visible line begins, or null if the end is shown. */
  constructor(
    readonly choice: LogChoice,
    private readonly heldByte: () => number | null,
  ) {}

  /** Hear the end of the log as it changes, until the answer is called. */
  start(): () => void {
    const unheard = onLog((frame) => this.hear(frame));
    this.ended = new AbortController();
    return () => {
      unheard();
      clearTimeout(this.counting);
      clearTimeout(this.again);
      this.counting = undefined;
      this.ended.abort();
      for (const abort of this.asked.values()) abort.abort();
    };
  }

  /** Return the line of a row; a line that is not here is asked for. */
  line(row: number): LogLine | undefined {
    if (!this.state.value.isCounted) return this.tail[row];
    const first = this.tail[0]?.n;
    if (typeof first === "number" && row + 1 >= first) {
      const at = this.tail[row + 1 - first];
      if (at?.n === row + 1) return at;
    }
    const number = Math.floor(row / WINDOW_LINES);
    const window = this.windows.get(number);
    const found = window?.lines[row - number * WINDOW_LINES];
    if (!window || !found || this.isOld(window, number)) this.ask(number, row);
    return found;
  }

  /** Return the row of the line that begins at a byte, once lines are counted. */
  private async rowOfByte(begin: number, lines: readonly LogLine[]): Promise<number | null> {
    const here = lines.find((line) => line.begin === begin);
    const line = here ?? (await this.fetch({ byte: begin, count: 1 })).lines[0];
    return line?.n ? line.n - 1 : null;
  }

  /** Whether something is left out between a row and the one before it. */
  isGapBefore(row: number): boolean {
    if (this.state.value.isCounted || row === 0) return false;
    const [before, here] = [this.tail[row - 1], this.tail[row]];
    return before !== undefined && here !== undefined && here.begin > before.end;
  }

  /** Count the lines of a log that the daemon tells without numbers: then any place can be shown. */
  count(): void {
    this.isHeld = true;
    if (this.state.value.isCounted || this.counting !== undefined) return;
    let indexed = -1;
    let failures = 0;
    const step = async () => {
      const answer = await this.fetchEnd();
      if (this.counting === undefined || this.state.value.isCounted) return;
      failures = answer ? 0 : failures + 1;
      if (failures === FAILURES_MAX) {
        this.counting = undefined;
        return;
      }
      if (answer?.is_whole && answer.total !== null) {
        const begin = this.heldByte();
        this.countedRow = begin === null ? null : await this.rowOfByte(begin, answer.lines).catch(() => null);
        if (this.counting === undefined || this.state.value.isCounted) return;
        this.counting = undefined;
        this.isCountedHere = true;
        this.tail = answer.lines;
        this.tell({ rows: answer.total, isCounted: true, size: answer.size, counted: null });
        return;
      }
      if (answer) {
        this.tell({ counted: answer.size ? Math.min(1, answer.indexed / answer.size) : 0 });
        // A log on another machine is counted only as far as its lines are asked for.
        if (answer.indexed === indexed)
          await this.fetch({ byte: Math.max(0, answer.size - 1), count: 1 }, this.ended.signal).catch(() => null);
        if (this.counting === undefined) return;
        indexed = answer.indexed;
      }
      this.counting = setTimeout(() => void step(), COUNT_MS);
    };
    this.counting = setTimeout(() => void step(), 0);
  }

  /** Learn how long the log has become that is counted by questions. */
  private recount(): void {
    if (this.counting !== undefined) return;
    this.counting = setTimeout(async () => {
      const answer = await this.fetchEnd();
      this.counting = undefined;
      if (!this.isCountedHere) return;
      if (answer?.is_whole && answer.total !== null) {
        this.tail = answer.lines;
        this.tell({ rows: answer.total });
      }
      // What came meanwhile is counted in the next turn.
      if (answer && answer.size < this.state.value.size) this.recount();
    }, COUNT_MS);
  }

  /** Show the end as it is told, also where its lines have no numbers. */
  follow(): void {
    this.isHeld = false;
    if (!this.state.value.isCounted) {
      this.tail = this.heard;
      this.tell({ rows: this.tail.length });
      return;
    }
    // The end of a log that does not grow any more is known with its numbers.
    if (!this.isCountedHere || this.state.value.isFinal) return;
    this.isCountedHere = false;
    this.tail = this.heard;
    this.tell({ rows: this.tail.length, isCounted: false });
  }

  /** Return the text of lines, for the clipboard. */
  async text(first: number, last: number): Promise<string> {
    const parts: string[] = [];
    for (let line = first; line <= last; ) {
      const answer = await this.fetch({ line, count: Math.min(5_000, last - line + 1) });
      if (!answer.lines.length) break;
      for (const each of answer.lines) parts.push(each.spans.map((span) => span[1]).join(""));
      line += answer.lines.length;
    }
    return `${parts.join("\n")}\n`;
  }

  /** Return the last lines, or null if they cannot be had now. */
  private fetchEnd(): Promise<LinesAnswer | null> {
    return this.fetch({ line: -TAIL_LINES, count: TAIL_LINES }, this.ended.signal).catch(() => null);
  }

  private fetch(values: Record<string, number>, signal?: AbortSignal): Promise<LinesAnswer> {
    const { job, attempt, stream } = this.choice;
    return get(`/v1/jobs/${job}/log/lines`, { attempt, stream, ...values }, signal);
  }

  private hear(frame: LogFrame): void {
    const { job, attempt, stream } = this.choice;
    if (frame.job !== job) return;
    if (attempt !== null && frame.attempt !== null && frame.attempt !== attempt) return;
    if (stream !== null && frame.stream !== null && frame.stream !== stream) return;
    const before = this.state.value;
    const isOther = before.isKnown && (frame.attempt !== before.attempt || frame.stream !== before.stream);
    if (isOther || frame.size < before.size) {
      this.windows.clear();
      this.isCountedHere = false;
    }
    const kept = frame.is_new ? [] : this.heard.filter((line) => line.begin < frame.first);
    this.heard = [...kept, ...frame.lines].slice(-TAIL_LINES);
    const { size, is_final: isFinal, error } = frame;
    const news = { size, isFinal, error, isKnown: true, attempt: frame.attempt, stream: frame.stream };
    if (frame.total !== null) {
      this.isCountedHere = false;
      this.tail = this.heard;
      this.tell({ ...news, rows: frame.total, isCounted: true, counted: null });
    } else if (this.isCountedHere) {
      this.tell(news);
      this.recount();
    } else if (this.isHeld && !isOther) {
      this.tell(news);
    } else {
      this.tail = this.heard;
      this.tell({ ...news, rows: this.tail.length, isCounted: false });
      // A log that does not grow any more can be counted at once.
      if (isFinal) {
        this.count();
        this.isHeld = false;
      }
    }
  }

  private isOld(window: Window, number: number): boolean {
    const { rows, isFinal } = this.state.value;
    const isSettled = (number + 1) * WINDOW_LINES <= window.total - UNSETTLED_LINES;
    return !isSettled && window.total !== rows && !(isFinal && window.total >= rows);
  }

  private ask(number: number, row: number): void {
    if (this.asked.has(number)) return;
    // Whoever scrolls fast needs only the last windows.
    for (const [other, running] of this.asked)
      if (Math.abs(other - number) > 2) {
        running.abort();
        this.asked.delete(other);
      }
    const abort = new AbortController();
    this.asked.set(number, abort);
    const begin = number * WINDOW_LINES;
    const known = this.windows.get(number);
    // A window whose characters were too many has only its first lines.
    const from = known && !this.isOld(known, number) ? row : begin;
    this.fetch({ line: from + 1, count: begin + WINDOW_LINES - from }, abort.signal)
      .then((answer) => {
        this.asked.delete(number);
        if (!answer.lines.length) this.askAgain();
        else this.keep(number, answer, from === begin ? undefined : known);
      })
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        this.asked.delete(number);
        this.tell({ error: words(error) });
        this.askAgain();
      });
  }

  private askAgain(): void {
    clearTimeout(this.again);
    this.again = setTimeout(() => this.tell({}), AGAIN_MS);
  }

  private keep(number: number, answer: LinesAnswer, known: Window | undefined): void {
    const window = known ?? { lines: [], total: 0 };
    window.total = answer.total ?? this.state.value.rows;
    for (const line of answer.lines) if (line.n !== null) window.lines[line.n - 1 - number * WINDOW_LINES] = line;
    this.windows.delete(number);
    this.windows.set(number, window);
    for (const oldest of this.windows.keys()) {
      if (this.windows.size <= WINDOWS_MAX) break;
      this.windows.delete(oldest);
    }
    this.tell({ error: null });
  }

  private tell(news: Partial<LogState>): void {
    this.state.value = { ...this.state.value, ...news, version: this.state.value.version + 1 };
  }
}
