/**
 * The rows of the table that are near what is visible. The daemon filters, sorts and counts; the page holds a window.
 * Rows change in place at once; their order changes only when `refresh` is called.
 */

import { signal } from "@preact/signals";
import { get, words } from "../../api/client";
import type { Job, Schemas } from "../../api/types";

/** Rows that one request asks for, and the rows that are kept around what is visible. */
const WINDOW_ROWS = 150;
const KEPT_ROWS = 1_000;
/** Rows of one request for a range, and the most rows that a range of a selection has. */
const RANGE_ROWS = 500;
export const RANGE_MAX = 5_000;
/** A window that was not read completely is asked for again after this long. */
const AGAIN_MS = 1_000;
/** Rows that changed while they were on their way are asked for again after this long. */
const OUTDATED_MS = 30;

export interface TableKey {
  q: string;
  sort: string;
  order: string;
}

type WindowAnswer = Schemas["Window"];

export interface TableState {
  total: number;
  isExact: boolean;
  /** Whether rows of the current key are there. */
  isLoaded: boolean;
  error: string | null;
  /** Grows with every change of a row. */
  version: number;
}

const BEGIN: TableState = { total: 0, isExact: true, isLoaded: false, error: null, version: 0 };

export class Rows {
  readonly state = signal<TableState>(BEGIN);
  /** Rows that came or went while the order was kept. */
  readonly changed = signal(0);
  private rows = new Map<number, Job>();
  private indexes = new Map<number, number>();
  private key: TableKey = { q: "", sort: "id", order: "desc" };
  private visible = { first: 0, count: 60 };
  private running: { first: number; abort: AbortController; isRefresh: boolean; isOutdated: boolean } | null = null;
  private again: ReturnType<typeof setTimeout> | undefined;
  /** The documents that were heard since rows were asked for: the answer may be older, and a newer one is heard, too. */
  private heard = new Map<number, Job>();

  row(index: number): Job | undefined {
    return this.rows.get(index);
  }

  indexOf(id: number): number | undefined {
    return this.indexes.get(id);
  }

  /** Show another table; its first rows replace the ones that are there as soon as they have come. */
  setKey(key: TableKey): void {
    this.key = key;
    this.visible = { first: 0, count: this.visible.count };
    this.state.value = { ...this.state.value, isLoaded: false, error: null };
    this.load(true);
  }

  /** Say which rows are visible; those that are missing are asked for. */
  show(first: number, count: number): void {
    this.visible = { first, count };
    if (!this.state.value.isLoaded) return;
    const end = Math.min(first + count, this.state.value.total);
    for (let index = first; index < end; index++)
      if (!this.rows.has(index)) {
        this.load(false);
        return;
      }
  }

  /** Ask for the visible rows again, in their new order; what is on its way comes first. */
  refresh(): void {
    if (this.running?.isRefresh) this.running.isOutdated = true;
    else this.load(true);
  }

  /** Count what would change if the order were not kept. */
  async probe(): Promise<void> {
    const first = this.firstWanted();
    const answer = await this.ask(first, WINDOW_ROWS).catch(() => null);
    if (!answer) return;
    const strangers = answer.jobs.filter((job) => !this.indexes.has(job.id)).length;
    this.changed.value = Math.max(strangers, Math.abs(answer.count - this.state.value.total));
  }

  /** Put new documents in the place of the old ones; the order stays. */
  patch(changed: ReadonlyMap<number, Job | null>): void {
    let hits = 0;
    for (const [id, job] of changed) {
      if (job && this.running) this.heard.set(id, job);
      const index = this.indexes.get(id);
      if (index === undefined || !job) continue;
      this.rows.set(index, job);
      hits++;
    }
    if (hits) this.bump();
  }

  /** Return the rows between two, as the daemon has them now. */
  async range(from: number, to: number): Promise<Job[]> {
    const first = Math.min(from, to);
    const last = Math.min(Math.max(from, to), first + RANGE_MAX - 1);
    const found: Job[] = [];
    for (let index = first; index <= last; index++) {
      const job = this.rows.get(index);
      if (job) found.push(job);
      else {
        const answer = await this.ask(index, Math.min(RANGE_ROWS, last - index + 1));
        if (!answer.jobs.length) break;
        found.push(...answer.jobs);
        index += answer.jobs.length - 1;
      }
    }
    return found;
  }

  /** Return the newest job that matches, and how many match. */
  async newest(): Promise<{ upto: number; total: number } | null> {
    const { q } = this.key;
    const answer = await get("/v1/jobs/window", { q, sort: "id", order: "desc", count: 1 });
    const job = answer.jobs[0];
    return job ? { upto: job.id, total: answer.count } : null;
  }

  stop(): void {
    this.running?.abort.abort();
    this.running = null;
    clearTimeout(this.again);
  }

  private firstWanted(): number {
    const middle = this.visible.first + this.visible.count / 2;
    return Math.max(0, Math.round(middle - WINDOW_ROWS / 2));
  }

  private load(isRefresh: boolean): void {
    const first = this.firstWanted();
    const running = this.running;
    if (running && !isRefresh) {
      const { first: from, count } = this.visible;
      // What is on its way has these rows.
      if (running.first <= from && from + count <= running.first + WINDOW_ROWS) return;
    }
    const mustRefresh = isRefresh || running?.isRefresh === true;
    running?.abort.abort();
    const abort = new AbortController();
    this.heard.clear();
    this.running = { first, abort, isRefresh: mustRefresh, isOutdated: false };
    this.ask(first, WINDOW_ROWS, abort.signal)
      .then((answer) => {
        if (!abort.signal.aborted) this.take(answer, mustRefresh);
      })
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        this.running = null;
        this.state.value = { ...this.state.value, error: words(error) };
      });
  }

  private ask(first: number, count: number, signal?: AbortSignal): Promise<WindowAnswer> {
    return get("/v1/jobs/window", { ...this.key, first, count }, signal);
  }

  private take(answer: WindowAnswer, isRefresh: boolean): void {
    const isOutdated = this.running?.isOutdated === true;
    this.running = null;
    const before = new Map([...this.rows.values()].map((job) => [job.id, job]));
    if (isRefresh) this.changed.value = 0;
    // Rows of the former order would show some jobs twice, and one of the two would never change again.
    if (isRefresh || this.isOtherOrder(answer)) this.rows.clear();
    for (const [at, job] of answer.jobs.entries())
      this.rows.set(answer.first + at, this.heard.get(job.id) ?? kept(job, before.get(job.id)));
    this.heard.clear();
    this.forget(answer.first);
    this.indexes = new Map([...this.rows].map(([index, job]) => [job.id, index]));
    const { version } = this.state.value;
    this.state.value = {
      total: answer.count,
      isExact: answer.is_exact,
      isLoaded: true,
      error: null,
      version: version + 1,
    };
    clearTimeout(this.again);
    if (!answer.is_exact) this.again = setTimeout(() => this.load(true), AGAIN_MS);
    // The visible rows may have moved on meanwhile, and the list may have become shorter.
    const first = Math.min(this.visible.first, Math.max(0, answer.count - this.visible.count));
    this.show(first, this.visible.count);
    // These rows are drawn first.
    if (isOutdated) this.again = setTimeout(() => this.load(true), OUTDATED_MS);
  }

  private isOtherOrder(answer: WindowAnswer): boolean {
    if (answer.count !== this.state.value.total) return true;
    return answer.jobs.some((job, at) => (this.indexes.get(job.id) ?? answer.first + at) !== answer.first + at);
  }

  private forget(around: number): void {
    if (this.rows.size <= KEPT_ROWS) return;
    for (const index of this.rows.keys()) if (Math.abs(index - around) > KEPT_ROWS / 2) this.rows.delete(index);
  }

  private bump(): void {
    this.state.value = { ...this.state.value, version: this.state.value.version + 1 };
  }
}

/** Return a new document with what the end of the log told, which a window does not have. */
function kept(job: Job, before: Job | undefined): Job {
  if (!before || before.attempt !== job.attempt) return job;
  const { last_line, progress, cause } = before;
  return {
    ...job,
    ...(last_line === undefined ? {} : { last_line }),
    ...(progress === undefined || job.state !== before.state ? {} : { progress }),
    ...(cause === undefined ? {} : { cause }),
  };
}
