/** Which rows of a long list are drawn: arithmetic only, so that it can be tested without a browser. */

export interface Range {
  first: number;
  count: number;
}

/** Rows drawn above and below the visible ones, so that scrolling shows no gap. */
export const OVERSCAN = 12;

/** Browsers draw no element that is higher; a longer list is scaled. */
export const HEIGHT_MAX = 10_000_000;

/** Return the rows to draw of `total` rows of `rowHeight` pixels, with `height` pixels visible from `top` on. */
export function visibleRows(top: number, height: number, rowHeight: number, total: number): Range {
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(total, Math.ceil((top + height) / rowHeight) + OVERSCAN);
  return { first: Math.min(first, total), count: Math.max(0, last - first) };
}

/** Return the height of the scrolled element, and the first visible row at a place of the scroll bar. */
export function scaled(rowHeight: number, total: number): { height: number; rowAt: (top: number) => number } {
  const real = rowHeight * total;
  const height = Math.min(real, HEIGHT_MAX);
  return { height, rowAt: (top) => (real === 0 ? 0 : (top * (real / height)) / rowHeight) };
}
