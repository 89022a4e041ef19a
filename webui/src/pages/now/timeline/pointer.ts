/** Mouse, touch and wheel on the timeline: drag to pan, drag with Shift to choose a range, wheel or two fingers to zoom, click to select. */

import type { BlockBox } from "./layout";
import type { Picture } from "./picture";
import { ranged, timeAt, type View } from "./scale";

/** A pointer that moved less is a click. */
const CLICK_PX = 4;
/** How much one pixel of the wheel zooms; a wheel that counts lines moves this many pixels a line. */
const WHEEL_ZOOM = 0.0022;
const LINE_PX = 18;

export interface PointerCalls {
  onSelect: (job: number) => void;
  onOpen: (job: number) => void;
  onRange: (view: View) => void;
}

export class Pointer {
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private begun: { x: number; y: number } | null = null;
  private isDrag = false;
  /** Where a drag with Shift began, in seconds. */
  private rangeFrom: number | null = null;
  private readonly ended = new AbortController();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly picture: Picture,
    private readonly calls: PointerCalls,
  ) {
    const options = { signal: this.ended.signal };
    canvas.addEventListener("pointerdown", (event) => this.down(event), options);
    canvas.addEventListener("pointermove", (event) => this.move(event), options);
    canvas.addEventListener("pointerup", (event) => this.up(event, true), options);
    canvas.addEventListener("pointercancel", (event) => this.up(event, false), options);
    canvas.addEventListener("pointerleave", () => this.hover(null), options);
    canvas.addEventListener("dblclick", (event) => this.open(event), options);
    canvas.addEventListener("wheel", (event) => this.wheel(event), { ...options, passive: false });
  }

  close(): void {
    this.ended.abort();
  }

  private place(event: MouseEvent): { x: number; y: number } {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  private get gutter(): number {
    return this.picture.layout?.gutter ?? 0;
  }

  private second(x: number): number {
    return timeAt(this.picture.camera.view.peek(), this.canvas.clientWidth - this.gutter, x - this.gutter);
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    this.canvas.setPointerCapture(event.pointerId);
    if (this.pointers.size === 1) {
      this.begun = at;
      this.isDrag = false;
      if (event.shiftKey) this.picture.camera.settle();
      this.rangeFrom = event.shiftKey ? this.second(Math.max(this.gutter, at.x)) : null;
    }
  }

  private move(event: PointerEvent): void {
    const at = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before || !this.begun) {
      if (event.pointerType !== "touch") this.hover(at);
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, at);
    if (other) {
      this.isDrag = true;
      this.pinch(before, at, other);
      return;
    }
    if (!this.isDrag && Math.hypot(at.x - this.begun.x, at.y - this.begun.y) < CLICK_PX) return;
    this.isDrag = true;
    this.hover(null);
    if (this.rangeFrom !== null) {
      this.picture.band.value = { from: this.rangeFrom, to: this.second(Math.max(this.gutter, at.x)) };
      return;
    }
    this.canvas.classList.add("dragging");
    this.picture.camera.pan(this.second(before.x) - this.second(at.x));
  }

  /** Zoom so that both fingers stay on the seconds that they touch. */
  private pinch(before: { x: number }, at: { x: number }, other: { x: number }): void {
    const wide = Math.max(20, Math.abs(before.x - other.x));
    const next = Math.max(20, Math.abs(at.x - other.x));
    this.picture.camera.zoom(wide / next, this.second(other.x));
  }

  private up(event: PointerEvent, isClick: boolean): void {
    if (!this.pointers.delete(event.pointerId)) return;
    this.canvas.classList.remove("dragging");
    if (this.pointers.size) return;
    const begun = this.begun;
    this.begun = null;
    if (this.rangeFrom !== null) this.choose(isClick);
    if (!isClick || this.isDrag || !begun) return;
    const box = this.picture.at(begun.x, begun.y);
    if (box) this.click(box);
  }

  /** Show the range that was dragged over; a drag that was broken off shows nothing else. */
  private choose(isWhole: boolean): void {
    const band = this.picture.band.peek();
    this.picture.band.value = null;
    this.rangeFrom = null;
    if (band && isWhole && this.isDrag) this.calls.onRange(ranged(band.from, band.to));
  }

  private click(box: BlockBox): void {
    const { block } = box;
    if (block.kind !== "merged") this.calls.onSelect(block.job);
    else this.picture.camera.zoom(0.25, (block.from + block.to) / 2);
  }

  private open(event: MouseEvent): void {
    const { x, y } = this.place(event);
    const block = this.picture.at(x, y)?.block;
    if (block && block.kind !== "merged") this.calls.onOpen(block.job);
  }

  private hover(at: { x: number; y: number } | null): void {
    const box = at && this.picture.at(at.x, at.y);
    this.canvas.classList.toggle("pointing", Boolean(box));
    this.picture.hovered.value = box && at ? { box, ...at } : null;
  }

  private wheel(event: WheelEvent): void {
    const { x } = this.place(event);
    // Beside the plot the wheel scrolls the lanes, and with other keys it is the browser's.
    if (x < this.gutter || event.altKey || event.metaKey) return;
    event.preventDefault();
    const scale = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PX : 1;
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.picture.camera.pan(this.second(sideways * scale) - this.second(0));
    else this.picture.camera.zoom(Math.exp(event.deltaY * scale * WHEEL_ZOOM), this.second(x));
    this.hover(null);
  }
}
