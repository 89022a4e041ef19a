/** What the timeline shows, and how it moves: it follows the clock until somebody looks elsewhere. */

import { computed, signal, untracked } from "@preact/signals";
import { remembered } from "../../../settings";
import { between, fitting, following, panned, SPAN_MAX, SPAN_MIN, type View, zoomed } from "./scale";

/** How long a movement takes from one view to another. */
const MOVE_MS = 180;
/** Whether somebody wants no movements; asked once, not for each of them. */
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export const SPANS: readonly { words: string; title: string; seconds: number }[] = [
  { words: "1 h", title: "the last hour", seconds: 3600 },
  { words: "6 h", title: "the last 6 hours", seconds: 6 * 3600 },
  { words: "24 h", title: "the last day", seconds: 86_400 },
  { words: "7 d", title: "the last 7 days", seconds: 7 * 86_400 },
];

/** What somebody chose; null for as much as there is. */
const chosen = remembered<number | null>("timeline.span", null, (value) =>
  typeof value === "number" && value >= SPAN_MIN && value <= SPAN_MAX ? value : undefined,
);

export class Camera {
  /** The view that somebody chose; null while the view follows the clock. */
  readonly held = signal<View | null>(null);
  readonly clock = signal(Date.now() / 1000);
  readonly chosen = chosen;
  /** What the answers have: the oldest attempt of the last hours, and the last end that is expected. */
  readonly oldest = signal<number | null>(null);
  readonly latest = signal<number | null>(null);
  readonly view = computed<View>(() => this.moving.value ?? this.held.value ?? this.followed());
  private readonly moving = signal<View | null>(null);
  private frame = 0;

  /** Show the last seconds, or as much as there is, and follow the clock. */
  follow(seconds = this.chosen.peek()): void {
    this.move(() => {
      this.held.value = null;
      this.chosen.value = seconds;
    });
  }

  /** Return the view that follows the clock. */
  private followed(): View {
    const now = this.clock.value;
    if (this.chosen.value !== null) return following(this.chosen.value, now);
    const { span, ahead } = fitting(this.oldest.value, this.latest.value, now);
    return following(span, now, ahead);
  }

  /** Show a range of time. */
  show(view: View): void {
    this.move(() => {
      this.held.value = view;
    });
  }

  pan(seconds: number): void {
    this.stop();
    this.held.value = panned(this.view.peek(), seconds);
  }

  /** Zoom around a second; a view that follows the clock goes on doing so if no second is given. */
  zoom(factor: number, at: number | null): void {
    this.stop();
    const view = this.view.peek();
    if (at === null && this.held.peek() === null) {
      const span = this.clock.peek() - view.from;
      this.chosen.value = Math.min(SPAN_MAX, Math.max(SPAN_MIN, span * factor));
      return;
    }
    this.held.value = zoomed(view, factor, at ?? (view.from + view.to) / 2);
  }

  /** Move so that a stretch of time is in view. */
  reveal(from: number, to: number): void {
    const view = this.view.peek();
    if (from >= view.from && from <= view.to) return;
    const length = view.to - view.from;
    const middle = (from + Math.min(to, from + length / 2)) / 2;
    this.move(() => {
      this.held.value = { from: middle - length / 2, to: middle + length / 2 };
    });
  }

  /** End a movement at once: what is shown is where the movement leads. */
  settle(): void {
    this.stop();
  }

  /** Change the view, with a short movement unless somebody wants none. */
  private move(change: () => void): void {
    const begin = this.view.peek();
    this.stop();
    change();
    const isStill = reducedMotion.matches || document.visibilityState === "hidden";
    if (isStill) return;
    const started = performance.now();
    const step = (at: number) => {
      const part = Math.min(1, Math.max(0, (at - started) / MOVE_MS));
      const goal = this.held.peek() ?? untracked(() => this.followed());
      this.moving.value = part < 1 ? between(begin, goal, 1 - (1 - part) ** 3) : null;
      if (part < 1) this.frame = requestAnimationFrame(step);
    };
    this.moving.value = begin;
    this.frame = requestAnimationFrame(step);
  }

  private stop(): void {
    cancelAnimationFrame(this.frame);
    this.moving.value = null;
  }
}
