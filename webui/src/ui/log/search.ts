/** The search in a whole log: the daemon finds and counts, from what is visible on and then backwards from there. */

import { signal } from "@preact/signals";
import { address } from "../../api/client";
import type { Schemas } from "../../api/types";
import type { LogChoice } from "./lines";

/** Hits that are kept of each direction; all are counted. */
const HITS_MAX = 5_000;
/** How long one question may take; then the next one goes on. */
const WITHIN_MS = 2_000;
/** Above the number of every line. */
const LINE_MAX = 2 ** 50;

export interface Asked {
  q: string;
  isRegex: boolean;
  ignoresCase: boolean;
}

export interface SearchState {
  asked: Asked | null;
  /** The lines that match and are kept, in order. */
  hits: number[];
  total: number;
  /** How many of all hits are before the first one that is kept. */
  skipped: number;
  /** How much of the log was searched, from 0 to 1. */
  searched: number;
  isRunning: boolean;
  /** Whether the whole log was searched. */
  isWhole: boolean;
  error: string | null;
  /** The line of the hit that is shown. */
  line: number | null;
}

const NOTHING: SearchState = {
  asked: null,
  hits: [],
  total: 0,
  skipped: 0,
  searched: 0,
  isRunning: false,
  isWhole: false,
  error: null,
  line: null,
};

type Message = Schemas["LogSearch"];
/** Where a search begins: behind a line, or backwards from before a line. */
type Way = { after: number } | { before: number };

/** What one direction of a search has found. */
interface Found {
  hits: number[];
  total: number;
  /** Bytes that were searched. */
  bytes: number;
}

export class LogSearch {
  readonly state = signal<SearchState>(NOTHING);
  /** Where an expression matches in a line: its first match, in characters. */
  readonly places = new Map<number, [number, number]>();
  private abort: AbortController | null = null;
  private behind: Found = nothing();
  private before: Found = nothing();
  private size = 0;

  constructor(private readonly choice: LogChoice) {}

  /** Search; `show` is called with the nearest hit from a line on, or else with the nearest one before it. */
  async run(asked: Asked, from: number, show: (line: number) => void): Promise<void> {
    this.clear();
    if (!asked.q) return;
    const abort = new AbortController();
    this.abort = abort;
    [this.behind, this.before, this.size] = [nothing(), nothing(), 0];
    this.state.value = { ...NOTHING, asked, isRunning: true };
    try {
      await this.look(asked, { after: from - 1 }, this.behind, abort.signal, show);
      if (from > 1) await this.look(asked, { before: from }, this.before, abort.signal, show);
      if (!abort.signal.aborted) this.state.value = { ...this.state.value, isWhole: true };
    } catch (error) {
      if (abort.signal.aborted) return;
      this.state.value = { ...this.state.value, error: error instanceof Error ? error.message : String(error) };
    }
    if (!abort.signal.aborted) this.state.value = { ...this.state.value, isRunning: false };
  }

  /** Go to the next or the previous hit; `show` is called with its line. */
  async step(by: 1 | -1, show: (line: number) => void): Promise<void> {
    const { hits, line, isRunning, total, asked } = this.state.value;
    if (line === null || !asked) return;
    const at = hits.indexOf(line);
    const known = at < 0 ? undefined : hits[at + by];
    const isAll = !isRunning && hits.length === total;
    let next = known ?? (isAll ? hits.at(by > 0 ? 0 : -1) : undefined);
    next ??= await this.nearest(asked, by > 0 ? { after: line } : { before: line });
    // Behind the last hit comes the first one.
    if (!isRunning) next ??= await this.nearest(asked, by > 0 ? { after: 0 } : { before: LINE_MAX });
    if (next === undefined || this.state.value.line !== line) return;
    this.state.value = { ...this.state.value, line: next };
    show(next);
  }

  /** End the search; what was found stays. */
  stop(): void {
    this.abort?.abort();
    this.abort = null;
    if (this.state.value.isRunning) this.state.value = { ...this.state.value, isRunning: false };
  }

  clear(): void {
    this.stop();
    this.places.clear();
    this.state.value = NOTHING;
  }

  /** Search in one direction to the end; a question that has paused is followed by the next one. */
  private async look(
    asked: Asked,
    way: Way,
    found: Found,
    signal: AbortSignal,
    show: (line: number) => void,
  ): Promise<void> {
    for (let on: Way | null = way; on; ) {
      const [total, bytes] = [found.total, found.bytes];
      const limit = HITS_MAX - found.hits.length;
      let next: Way | null = null;
      for await (const message of this.messages(asked, { ...on, limit, within: WITHIN_MS }, signal)) {
        if (message.n !== undefined) {
          found.hits.push(message.n);
          if (message.at && !message.left_out) this.places.set(message.n, message.at);
        }
        found.total = Math.max(total + (message.total ?? 0), found.hits.length);
        if (message.searched !== undefined && message.begin !== undefined)
          found.bytes = bytes + Math.abs(message.searched - message.begin);
        this.size = message.size ?? this.size;
        if (message.error) throw new Error(message.error.message);
        if (message.on !== undefined) next = "after" in way ? { after: message.on } : { before: message.on };
        if (message.n === undefined || found.hits.length === 1) this.tell(show);
      }
      on = next;
    }
  }

  private async nearest(asked: Asked, way: Way): Promise<number | undefined> {
    const abort = new AbortController();
    try {
      for await (const message of this.messages(asked, { ...way, limit: 1, stop: 1 }, abort.signal))
        if (message.n !== undefined) return message.n;
    } catch (error) {
      this.state.value = { ...this.state.value, error: error instanceof Error ? error.message : String(error) };
    }
    return undefined;
  }

  private async *messages(
    asked: Asked,
    more: Record<string, number>,
    signal: AbortSignal,
  ): AsyncGenerator<Message, void, void> {
    const { job, attempt, stream } = this.choice;
    const values = { attempt, stream, q: asked.q, regex: asked.isRegex ? 1 : null, i: asked.ignoresCase ? 1 : null };
    const response = await fetch(address(`/v1/jobs/${job}/log/search`, { ...values, ...more }), { signal });
    if (!response.ok || !response.body) throw new Error(await refusal(response));
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line) yield JSON.parse(line) as Message;
    }
  }

  /** Put what both directions have found into the state, and show the first hit. */
  private tell(show: (line: number) => void): void {
    const { behind, before } = this;
    const hits = [...before.hits].reverse().concat(behind.hits);
    const isFirst = this.state.value.line === null && hits.length > 0;
    const line = isFirst ? (behind.hits[0] ?? before.hits[0] ?? null) : this.state.value.line;
    this.state.value = {
      ...this.state.value,
      hits,
      line,
      total: behind.total + before.total,
      skipped: before.total - before.hits.length,
      searched: this.size ? Math.min(1, (behind.bytes + before.bytes) / this.size) : 0,
    };
    if (isFirst && line !== null) show(line);
  }
}

function nothing(): Found {
  return { hits: [], total: 0, bytes: 0 };
}

async function refusal(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return (JSON.parse(text) as { error?: { message?: string } }).error?.message ?? text;
  } catch {
    return text || response.statusText;
  }
}

/** Return where a text matches: all places of a plain text, the first one of an expression. */
export function marks(text: string, asked: Asked, place: [number, number] | undefined): [number, number][] {
  if (asked.isRegex) return place ? [[unitsOf(text, place[0]), unitsOf(text, place[1])]] : [];
  const [where, what] = asked.ignoresCase ? [text.toLowerCase(), asked.q.toLowerCase()] : [text, asked.q];
  // A character whose small form is longer would shift all places behind it.
  if (!what || where.length !== text.length) return [];
  const found: [number, number][] = [];
  for (let at = where.indexOf(what); at >= 0; at = where.indexOf(what, at + what.length))
    found.push([at, at + what.length]);
  return found;
}

/** Return how many units of JavaScript some characters take. */
function unitsOf(text: string, characters: number): number {
  let units = 0;
  let left = characters;
  for (const character of text) {
    if (left-- <= 0) break;
    units += character.length;
  }
  return units;
}
