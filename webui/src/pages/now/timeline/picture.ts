/** The picture on the canvas: what it shows, as signals, and one drawing per frame when something changed. */

import { computed, effect, signal, untracked } from "@preact/signals";
import { devices } from "../../../live/live";
import { remembered } from "../../../settings";
import { themeChanges } from "../../../ui/colours";
import { now as seconds } from "../../../ui/hooks";
import { Camera } from "./camera";
import { draw } from "./draw";
import {
  AXIS,
  type BlockBox,
  type Direction,
  extent,
  hit,
  type Layout,
  laneBoxes,
  layOut,
  neighbour,
  reach,
} from "./layout";
import type { Lane, TimelineAnswer } from "./model";
import { type ColourBy, Palette } from "./paint";
import { FITTING_MAX, following, ranged, type View } from "./scale";
import { TimelineSource } from "./source";

/** The highest and the lowest part of a long timeline that is shown at once, the first as a part of the window. */
const HEIGHT_PART = 0.62;
const HEIGHT_MIN = 260;
/** The height while nothing is known yet. */
const HEIGHT_EMPTY = 120;

export const colourBy = remembered<ColourBy>("timeline.colour", "state", (value) =>
  value === "state" || value === "name" || value === "queue" ? value : undefined,
);

export class Picture {
  readonly camera = new Camera();
  readonly source = new TimelineSource();
  readonly selected = signal<number | null>(null);
  /** The block that the arrow keys are at. */
  readonly focused = signal<string | null>(null);
  readonly hovered = signal<{ box: BlockBox; x: number; y: number } | null>(null);
  /** The range of time that is being chosen: by a drag, or from a block on by keys. */
  readonly band = signal<View | null>(null);
  /** How far the lanes are scrolled. */
  readonly top = signal(0);
  readonly size = signal({ width: 0, ratio: 1 });
  readonly heights = computed(() => {
    const lanes = this.source.shown.value?.answer.lanes;
    const whole = lanes ? laneBoxes(lanes, this.size.value.width).height : HEIGHT_EMPTY;
    return { whole, visible: Math.min(whole, Math.max(HEIGHT_MIN, Math.round(innerHeight * HEIGHT_PART))) };
  });
  layout: Layout | null = null;
  private due = 0;

  /** Draw on a canvas in a frame that scrolls, until the answer is called. */
  start(frame: HTMLElement, canvas: HTMLCanvasElement): () => void {
    const stopSource = this.source.start();
    const stopSize = watchSize(frame, (width, ratio) => {
      this.size.value = { width, ratio };
    });
    const stopFitting = effect(() => {
      const answer = this.source.shown.value?.answer;
      if (answer) untracked(() => this.fit(answer));
    });
    const stopDrawing = effect(() => {
      this.camera.clock.value = seconds.value / 1000;
      const view = this.camera.view.value;
      void [this.source.shown.value, this.heights.value, this.top.value, this.selected.value, this.focused.value];
      void [this.hovered.value?.box.key, this.band.value, themeChanges.value, colourBy.value, devices.value];
      const { width } = this.size.value;
      // The first question is about some hours: a view that fits what there is has to know what there is.
      const isFirst = this.camera.chosen.value === null && !this.source.shown.value;
      const now = this.camera.clock.value;
      if (width) this.source.need(isFirst ? following(FITTING_MAX, now) : view, width);
      // A hidden tab draws no frames.
      if (!this.due) this.due = requestAnimationFrame(() => this.paint(canvas));
    });
    return () => {
      stopFitting();
      stopDrawing();
      stopSize();
      stopSource();
      cancelAnimationFrame(this.due);
      this.camera.settle();
    };
  }

  /** Tell the camera what there is: all that is known of the last hours, and all that is expected. */
  private fit(answer: TimelineAnswer): void {
    const { oldest, latest } = reach(answer, this.camera.clock.peek());
    const known = this.camera.oldest.peek();
    this.camera.oldest.value = oldest === null ? known : Math.min(oldest, known ?? oldest);
    this.camera.latest.value = latest;
  }

  at(x: number, y: number): BlockBox | null {
    return this.layout && y > AXIS ? hit(this.layout, x, y + this.top.peek()) : null;
  }

  /** Go to the next block in a direction, and bring it into view. */
  step(direction: Direction, frame: HTMLElement): void {
    // A key may come before the first frame.
    this.layout ??= this.laidOut();
    const found = this.layout && neighbour(this.layout, this.focused.peek(), direction);
    if (!found) return;
    this.focused.value = found.key;
    const { from, to } = extent(found.block, this.camera.clock.peek());
    this.camera.reveal(from, to);
    if (found.y < frame.scrollTop + AXIS) frame.scrollTop = found.y - AXIS - 20;
    const bottom = found.y + found.height + 10;
    if (bottom > frame.scrollTop + frame.clientHeight) frame.scrollTop = bottom - frame.clientHeight;
  }

  /** Begin a range at the block that the arrow keys are at, or at the left of the view. */
  beginRange(): void {
    const box = this.focusedBox();
    const now = this.camera.clock.peek();
    const from = box ? extent(box.block, now).from : this.camera.view.peek().from;
    this.band.value = { from, to: box ? Math.max(from, extent(box.block, now).to) : from };
  }

  /** End the range at the block that the arrow keys are at, or at the right of the view; return the range. */
  endRange(): View {
    const box = this.focusedBox();
    const now = this.camera.clock.peek();
    const block = box ? extent(box.block, now) : null;
    const from = this.band.peek()?.from ?? block?.from ?? this.camera.view.peek().from;
    this.band.value = null;
    return ranged(from, block?.to ?? this.camera.view.peek().to);
  }

  focusedBox(): BlockBox | null {
    return this.layout?.boxes.find((box) => box.key === this.focused.value) ?? null;
  }

  /** Lay out all blocks as they are now; null before anything is known of them. */
  private laidOut(): Layout | null {
    const shown = this.source.shown.peek();
    const { width } = this.size.peek();
    if (!shown || !width) return null;
    return layOut(shown.answer, shown.stacks, this.camera.view.peek(), width, this.camera.clock.peek());
  }

  private paint(canvas: HTMLCanvasElement): void {
    this.due = 0;
    const shown = this.source.shown.peek();
    const { width, ratio } = this.size.peek();
    const { visible } = this.heights.peek();
    if (!width) return;
    resize(canvas, width, visible, ratio);
    const context = canvas.getContext("2d");
    const layout = this.laidOut();
    if (!context || !shown || !layout) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.layout = layout;
    const scene = {
      answer: shown.answer,
      layout,
      view: this.camera.view.peek(),
      top: this.top.peek(),
      visible,
      selected: this.selected.peek(),
      focused: this.focused.peek(),
      hovered: this.hovered.peek()?.box.key ?? null,
      band: this.band.peek(),
      notes: shown.answer.lanes.map(noteOf),
    };
    draw(context, scene, new Palette(colourBy.peek()));
  }
}

/** Return what is said beside the name of a lane. */
function noteOf(lane: Lane): string {
  if (!lane.online) return "silent";
  const device = devices
    .peek()
    ?.find((each) => each.worker === lane.worker && each.resource === lane.resource && each.id === lane.id);
  const parts: string[] = [];
  if (lane.drained) parts.push("drained");
  else if (device && lane.id !== null) parts.push(device.free >= device.worth ? "free" : freeWords(device.free));
  const others = device?.others ?? lane.others ?? 0;
  if (others > 0) parts.push(`others ${round(others)}`);
  return parts.join(", ");
}

function freeWords(free: number): string {
  return free > 0 ? `${round(free)} free` : "in use";
}

function round(value: number): number {
  return +value.toFixed(2);
}

function resize(canvas: HTMLCanvasElement, width: number, height: number, ratio: number): void {
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === wide && canvas.height === high) return;
  canvas.width = wide;
  canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}

/** Hear of the width of an element and of the pixels of its screen: both change, and the latter without a resize. */
function watchSize(element: HTMLElement, call: (width: number, ratio: number) => void): () => void {
  const tell = () => call(element.clientWidth, devicePixelRatio || 1);
  const observer = new ResizeObserver(tell);
  observer.observe(element);
  let screen: MediaQueryList | null = null;
  const changed = () => {
    screen?.removeEventListener("change", changed);
    screen = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    screen.addEventListener("change", changed);
    tell();
  };
  changed();
  return () => {
    observer.disconnect();
    screen?.removeEventListener("change", changed);
  };
}
