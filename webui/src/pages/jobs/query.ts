/** The words of a query that the page itself changes; every other word is the daemon's to read. */

import { STATES, type State } from "../../api/types";

const STATE_WORD = /(^|\s)state:(\S*)/gi;

/** Return the states that a query names with `state:`. */
export function statesOf(q: string): State[] {
  const named = [...q.matchAll(STATE_WORD)].flatMap((found) => (found[2] ?? "").split(","));
  return STATES.filter((state) => named.includes(state));
}

/** Return a query with one state more or less; no state means all. */
export function toggleState(q: string, state: State): string {
  const had = statesOf(q);
  const next = had.includes(state) ? had.filter((each) => each !== state) : [...had, state];
  return withStates(q, next);
}

export function withStates(q: string, states: readonly State[]): string {
  const rest = q.replace(STATE_WORD, " ").replace(/\s+/g, " ").trim();
  return [states.length ? `state:${states.join(",")}` : "", rest].filter(Boolean).join(" ");
}
