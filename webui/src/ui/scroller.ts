/**
 * The place in a long list of rows of one height. The browser scrolls an element that is as high as the list, or as high
 * as a browser can draw; then a small move scrolls by its own pixels, and a large one by its part of the whole.
 */

import { signal } from "@preact/signals";
import { HEIGHT_MAX } from "./virtual";

/** After this long without a scroll, the scroll bar is put where it belongs. */
const REST_MS = 150;

export class Scroller {
  /** The first visible pixel of the list, and how many pixels of it are visible. */
  readonly top = signal(0);
  readonly height = signal(0);
  /** The height of the element that the browser scrolls. */
  readonly spacer = signal(0);
  private element: HTMLElement | null = null;
  private real = 0;
  private native = 0;
  private rest: ReturnType<typeof setTimeout> | undefined;

  /** `head` are pixels at the top that are covered by a head which stays. */
  constructor(private readonly head = 0) {}

  attach(element: HTMLElement): () => void {
    this.element = element;
    const measure = () => {
      this.height.value = Math.max(0, element.clientHeight - this.head);
    };
    const scrolled = () => this.hear(element.scrollTop);
    const wheeled = (event: WheelEvent) => {
      if (this.real <= HEIGHT_MAX || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      this.to(this.top.value + event.deltaY * (event.deltaMode === 1 ? 20 : 1));
    };
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    measure();
    this.native = element.scrollTop;
    element.addEventListener("scroll", scrolled, { passive: true });
    element.addEventListener("wheel", wheeled, { passive: false });
    return () => {
      watch.disconnect();
      clearTimeout(this.rest);
      element.removeEventListener("scroll", scrolled);
      element.removeEventListener("wheel", wheeled);
      this.element = null;
    };
  }

  /** Say how high the whole list is. */
  setReal(pixels: number): void {
    if (pixels === this.real) return;
    this.real = pixels;
    this.spacer.value = Math.min(pixels, HEIGHT_MAX);
    if (this.top.value > this.most) this.to(this.most);
  }

  get most(): number {
    return Math.max(0, this.real - this.height.value);
  }

  /** Show the list from a pixel on. */
  to(pixel: number): void {
    this.top.value = Math.max(0, Math.min(pixel, this.most));
    this.settle();
  }

  /** Scroll as little as needed to show the pixels between two places. */
  reveal(begin: number, end: number): void {
    if (begin < this.top.value) this.to(begin);
    else if (end > this.top.value + this.height.value) this.to(end - this.height.value);
  }

  private get ratio(): number {
    const room = Math.max(1, Math.min(this.real, HEIGHT_MAX) - this.height.value);
    return this.real <= HEIGHT_MAX ? 1 : this.most / room;
  }

  private hear(native: number): void {
    const moved = native - this.native;
    this.native = native;
    if (moved === 0) return;
    const isWhole = this.real <= HEIGHT_MAX;
    const isSmall = !isWhole && native > 0 && Math.abs(moved) < 2 * this.height.value;
    this.top.value = Math.max(0, Math.min(isSmall ? this.top.value + moved : native * this.ratio, this.most));
    if (isWhole) return;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.settle(), REST_MS);
  }

  /** Put the browser's scroll bar where the list is. */
  private settle(): void {
    if (!this.element) return;
    const native = Math.round(this.top.value / this.ratio);
    if (Math.abs(native - this.element.scrollTop) < 1) return;
    this.native = native;
    this.element.scrollTop = native;
    this.native = this.element.scrollTop;
  }
}
