/** Keeps the range that is shown in the address: a link shows the same, and the browser's own Back goes back. */

import { effect, untracked } from "@preact/signals";
import { query, setQuery } from "../../../router";
import type { Camera } from "./camera";
import { readRange, type View, writeRange } from "./scale";

/** The address is written when the view has been still for this long: browsers take few changes a second. */
const STILL_MS = 300;

export class AddressRange {
  /** The range as the address has it. */
  private written = "";
  private due: ReturnType<typeof setTimeout> | undefined;
  private readonly stops: (() => void)[];

  constructor(private readonly camera: Camera) {
    this.stops = [effect(() => this.read(query.value)), effect(() => this.follow(camera.held.value))];
  }

  /** Zoom to a range, as a step that the browser's Back takes back. */
  choose(view: View): void {
    const scrolled = window.scrollY;
    this.write(view, false);
    window.scrollTo(0, scrolled);
    this.camera.show(view);
  }

  close(): void {
    clearTimeout(this.due);
    for (const stop of this.stops) stop();
  }

  private read(from: URLSearchParams): void {
    const view = readRange(from);
    const text = textOf(view);
    if (text === this.written) return;
    this.written = text;
    untracked(() => (view ? this.camera.show(view) : this.camera.follow()));
  }

  private follow(held: View | null): void {
    clearTimeout(this.due);
    this.due = setTimeout(() => this.write(held, true), STILL_MS);
  }

  private write(view: View | null, isReplaced: boolean): void {
    const text = textOf(view);
    if (text === this.written) return;
    this.written = text;
    setQuery(writeRange(view), isReplaced);
  }
}

function textOf(view: View | null): string {
  const { from, to } = writeRange(view);
  return from === null ? "" : `${from} ${to}`;
}
