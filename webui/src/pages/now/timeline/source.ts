/** Keeps the answer of `GET /v1/timeline` for what is shown: asked for again when jobs move or the view leaves it. */

import { effect, signal } from "@preact/signals";
import { get, words } from "../../../api/client";
import { moved, resets } from "../../../live/live";
import { throttled } from "../../../ui/hooks";
import { type Stacked, stack } from "./layout";
import type { Estimate, TimelineAnswer } from "./model";
import type { View } from "./scale";

/** How often the timeline is asked for at most, while jobs move. */
const ASK_MS = 1_000;
/** The plan changes with the clock even if no job moves. */
const REPLAN_MS = 30_000;
/** How often the plan is asked for again while it does not know the last change. */
const REPEATS_MAX = 10;
/** More than the view is asked for, so that a small movement shows no gap. */
const MARGIN = 0.5;
/** The answer is asked for again when the view is this much finer or coarser than the answer. */
const FINER = 1.6;

/** Grows with every answer: what else tells of the plan is then asked for too, so that both say the same. */
export const answers = signal(0);

/** When planned jobs start, as the timeline shows it. */
export const planned = signal<ReadonlyMap<number, Estimate>>(new Map());

export interface Shown {
  answer: TimelineAnswer;
  stacks: Stacked[];
}

export class TimelineSource {
  readonly shown = signal<Shown | null>(null);
  readonly error = signal<string | null>(null);
  private view: View | null = null;
  private width = 0;
  private asked: { view: View; span: number } | null = null;
  private abort: AbortController | null = null;
  private isAsking = false;
  private isStale = false;
  /** How often the plan was asked for again since something moved. */
  private repeats = 0;
  private readonly askSoon = throttled(() => void this.ask(), ASK_MS);

  /** Begin; call the answer to end. */
  start(): () => void {
    let isFirst = true;
    const stopEffect = effect(() => {
      void moved.value;
      void resets.value;
      if (!isFirst) this.renew();
      isFirst = false;
    });
    const timer = setInterval(() => this.renew(), REPLAN_MS);
    const wake = () => {
      if (document.visibilityState === "visible" && this.isStale) this.renew();
    };
    document.addEventListener("visibilitychange", wake);
    return () => {
      stopEffect();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", wake);
      this.view = null;
      this.abort?.abort();
    };
  }

  /** Say what is shown, in `width` pixels. */
  need(view: View, width: number): void {
    this.view = view;
    this.width = width;
    if (!this.asked || !this.covers(view)) this.askSoon();
  }

  private covers(view: View): boolean {
    if (!this.asked) return false;
    const ratio = (view.to - view.from) / this.asked.span;
    const { from, to } = this.asked.view;
    return view.from >= from && view.to <= to && ratio < FINER && ratio > 1 / FINER;
  }

  private renew(): void {
    this.repeats = 0;
    if (document.visibilityState === "hidden") this.isStale = true;
    else this.askSoon();
  }

  private async ask(): Promise<void> {
    if (!this.view) return;
    if (this.isAsking) {
      this.isStale = true;
      return;
    }
    this.isAsking = true;
    this.isStale = false;
    const span = this.view.to - this.view.from;
    // Whole pixels: pages that show the same ask the same question, and the daemon answers it once.
    const pixel = span / this.width;
    const round = (at: number) => Math.round(at / pixel) * pixel;
    const asked = { from: round(this.view.from - span * MARGIN), to: round(this.view.to + span * MARGIN) };
    this.abort = new AbortController();
    try {
      const values = {
        from: asked.from.toFixed(3),
        to: asked.to.toFixed(3),
        px: Math.round(this.width * (1 + 2 * MARGIN)),
      };
      // A block is one of two kinds, which the document of the API has as one type.
      const answer = (await get("/v1/timeline", values, this.abort.signal)) as TimelineAnswer;
      this.asked = { view: asked, span };
      this.shown.value = { answer, stacks: answer.lanes.map((lane) => stack(lane, answer.now)) };
      this.error.value = null;
      planned.value = startsIn(answer);
      answers.value++;
      // A forecast takes a moment, also after a change that no other follows: the plan is asked for again.
      if (!answer.is_plan_current && this.repeats++ < REPEATS_MAX) this.isStale = true;
    } catch (error) {
      if (this.view) this.error.value = words(error);
    } finally {
      this.isAsking = false;
    }
    if (this.view && (this.isStale || (this.asked && !this.covers(this.view)))) this.askSoon();
  }
}

function startsIn(answer: TimelineAnswer): ReadonlyMap<number, Estimate> {
  const found = new Map<number, Estimate>();
  for (const block of answer.lanes.flatMap((lane) => lane.blocks))
    if (block.kind === "planned" && block.starts) found.set(block.job, block.starts);
  return found;
}
