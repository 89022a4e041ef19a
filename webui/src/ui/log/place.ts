/**
 * The place in a log: the first visible row, and how much of it is scrolled off. Rows may have different heights, which
 * are known once a row was drawn. Arithmetic only, so that it can be tested without a browser.
 */

import { HEIGHT_MAX } from "../virtual";

/** Heights of rows that are remembered. */
const HEIGHTS_MAX = 5_000;
/** Rows drawn above and below the visible ones. */
export const MARGIN_ROWS = 20;

export class LogPlace {
  row = 0;
  pixels = 0;
  /** Whether the end is shown, also when rows are added. */
  isAtEnd = true;
  total = 0;
  viewport = 0;
  private readonly heights = new Map<number, number>();

  /** `base` is the height of a row of one line. */
  constructor(readonly base: number) {}

  heightOf(row: number): number {
    return this.heights.get(row) ?? this.base;
  }

  /** Remember how high a row is; return whether that is news. */
  measured(row: number, height: number): boolean {
    if (this.heightOf(row) === height) return false;
    if (this.heights.size >= HEIGHTS_MAX) this.heights.clear();
    if (height === this.base) this.heights.delete(row);
    else this.heights.set(row, height);
    return true;
  }

  forgetHeights(): void {
    this.heights.clear();
  }

  setTotal(total: number): void {
    this.total = total;
    this.settle(false);
  }

  setViewport(pixels: number): void {
    this.viewport = pixels;
    this.settle(false);
  }

  /** Stay here although rows are added. */
  stay(): void {
    this.isAtEnd = false;
  }

  /** Go on after rows were measured. */
  remeasure(): void {
    this.settle(false);
  }

  /** Move by pixels; moving to the end stays at the end. */
  move(pixels: number): void {
    this.isAtEnd = false;
    this.pixels += pixels;
    while (this.pixels < 0 && this.row > 0) {
      this.row--;
      this.pixels += this.heightOf(this.row);
    }
    while (this.row < this.total - 1 && this.pixels >= this.heightOf(this.row)) {
      this.pixels -= this.heightOf(this.row);
      this.row++;
    }
    this.pixels = Math.max(0, this.pixels);
    this.settle(true);
  }

  /** Show a row: at the top, or with some rows above it. */
  toRow(row: number, above = 0): void {
    this.row = Math.max(0, Math.min(row - above, this.total - 1));
    this.pixels = 0;
    this.isAtEnd = false;
    this.settle(true);
  }

  toEnd(): void {
    this.isAtEnd = true;
    this.settle(true);
  }

  /** The rows to draw. */
  range(): { first: number; count: number } {
    const visible = Math.ceil(this.viewport / this.base) + 1;
    const first = Math.max(0, this.row - MARGIN_ROWS);
    const last = Math.min(this.total, this.row + visible + MARGIN_ROWS);
    return { first, count: Math.max(0, last - first) };
  }

  /** How many pixels the drawn rows are moved up. */
  shift(first: number): number {
    let sum = this.pixels;
    for (let row = first; row < this.row; row++) sum += this.heightOf(row);
    return sum;
  }

  isVisible(row: number): boolean {
    if (row < this.row) return false;
    let sum = -this.pixels;
    for (let at = this.row; at < row && sum < this.viewport; at++) sum += this.heightOf(at);
    return sum + this.heightOf(row) <= this.viewport;
  }

  // The scroll bar of the browser.

  /** The height of the element that the browser scrolls. */
  get spacer(): number {
    return Math.min(HEIGHT_MAX, Math.max(this.total * this.base, this.viewport));
  }

  /** Whether a pixel of the scroll bar is a pixel of the log. */
  get isExact(): boolean {
    return this.total * this.base <= HEIGHT_MAX && this.heights.size === 0;
  }

  /** Where the scroll bar belongs. */
  get native(): number {
    if (this.isExact) return this.row * this.base + this.pixels;
    const end = this.endPlace();
    const all = end.row + end.pixels / this.base;
    const here = this.row + this.pixels / Math.max(1, this.heightOf(this.row));
    return all <= 0 ? 0 : Math.min(1, here / all) * (this.spacer - this.viewport);
  }

  /** Go where somebody has put the scroll bar. */
  toNative(native: number): void {
    this.isAtEnd = false;
    const most = this.spacer - this.viewport;
    if (this.isExact || most <= 0) {
      this.row = Math.floor(native / this.base);
      this.pixels = native - this.row * this.base;
    } else if (native >= most - 1) {
      this.isAtEnd = true;
    } else {
      const end = this.endPlace();
      const at = (native / most) * (end.row + end.pixels / this.base);
      this.row = Math.floor(at);
      this.pixels = (at - this.row) * this.heightOf(this.row);
    }
    this.settle(true);
  }

  /** The lowest place: the last row ends where the view ends. */
  private endPlace(): { row: number; pixels: number } {
    let left = this.viewport;
    let row = this.total;
    while (row > 0 && left > 0) {
      row--;
      left -= this.heightOf(row);
    }
    return { row, pixels: Math.max(0, -left) };
  }

  /** Stay within the log; a move of a person to the end stays there. */
  private settle(isMove: boolean): void {
    const end = this.endPlace();
    const isBelow = this.row > end.row || (this.row === end.row && this.pixels >= end.pixels - 1);
    if (isBelow && isMove) this.isAtEnd = true;
    if (this.isAtEnd || isBelow) {
      this.row = end.row;
      this.pixels = end.pixels;
    }
  }
}
