/** Lines of a log in the address of a page. */

import type { Marked } from "../../ui/log/controller";

/** Return the lines that an address names: `#L12` or `#L12-L40`. */
export function markedIn(text: string): Marked | null {
  const found = /^#L(\d{1,15})(?:-L?(\d{1,15}))?$/.exec(text);
  if (!found) return null;
  const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
  return first >= 1 ? { first: Math.min(first, last), last: Math.max(first, last) } : null;
}
