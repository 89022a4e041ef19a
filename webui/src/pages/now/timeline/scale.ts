/** The time scale of the timeline: which seconds are shown, where a second is drawn, and the ticks of the axis. */

/** The shown seconds. */
export interface View {
  from: number;
  to: number;
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
/** The narrowest and the widest view. */
export const SPAN_MIN = 5;
export const SPAN_MAX = 90 * 86_400;
/** No range of an address is after this second: it is in the year 2286. */
const RANGE_END = 1e10;
/** The part of the past span that is shown of the future while the view follows the clock. */
const AHEAD = 0.4;
/** Pixels between two ticks, at least. */
const TICK_PX = 84;

const STEPS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 28].map((count) => count * DAY),
];

/** Return the view of the last `span` seconds, and of some of the future. */
export function following(span: number, now: number, ahead = span * AHEAD): View {
  return { from: now - span, to: now + ahead };
}

/** The spans that a view chooses by itself. */
const FITTING = [2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360].map((count) => count * MINUTE);
/** What such a view shows where nothing has run. */
const FITTING_USUAL = 10 * MINUTE;
/** How far back such a view looks at most. */
export const FITTING_MAX = FITTING.at(-1)!;
/** The least and the most of the future in it, as parts of its past: the most is a third of the width. */
const AHEAD_MIN = 0.15;
const AHEAD_MAX = 0.5;

/** Return the span, and the seconds ahead, that show everything between two times; null stands for nothing there. */
export function fitting(oldest: number | null, latest: number | null, now: number): { span: number; ahead: number } {
  const back = oldest === null ? FITTING_USUAL : now - oldest;
  // A short past is not stretched so far that the next minutes of the plan leave the view.
  const forAhead = latest === null ? 0 : Math.min(FITTING_USUAL, (latest - now) / AHEAD_MAX);
  const span = FITTING.find((each) => each >= Math.max(back, forAhead)) ?? FITTING_MAX;
  const ahead = latest === null ? span * AHEAD : (latest - now) * 1.05;
  return { span, ahead: Math.min(span * AHEAD_MAX, Math.max(span * AHEAD_MIN, ahead)) };
}

/** Return the past span of a view that follows the clock. */
export function spanOf(view: View): number {
  return (view.to - view.from) / (1 + AHEAD);
}

export function xOf(view: View, width: number, at: number): number {
  return ((at - view.from) / (view.to - view.from)) * width;
}

export function timeAt(view: View, width: number, x: number): number {
  return view.from + (x / Math.max(1, width)) * (view.to - view.from);
}

/** Return the view with its span multiplied by `factor`; the second `at` stays where it is drawn. */
export function zoomed(view: View, factor: number, at: number): View {
  const span = view.to - view.from;
  const wanted = Math.min(SPAN_MAX, Math.max(SPAN_MIN, span * factor));
  const part = (at - view.from) / span;
  return { from: at - part * wanted, to: at + (1 - part) * wanted };
}

/** Return the view of a range of time; a range that is too short or too long is made to fit around its middle. */
export function ranged(one: number, two: number): View {
  const span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, Math.abs(two - one)));
  const middle = (one + two) / 2;
  return { from: middle - span / 2, to: middle + span / 2 };
}

/** Read a range from the query of an address, in seconds since the epoch; null if there is none. */
export function readRange(query: URLSearchParams): View | null {
  const [from, to] = ["from", "to"].map((name) => Number(query.get(name) ?? Number.NaN)) as [number, number];
  return from > 0 && to > from && to < RANGE_END ? ranged(from, to) : null;
}

/** Return a range as parts of the query of an address, in whole seconds. */
export function writeRange(view: View | null): { from: string | null; to: string | null } {
  if (!view) return { from: null, to: null };
  const from = Math.round(view.from);
  return { from: String(from), to: String(Math.max(from + SPAN_MIN, Math.round(view.to))) };
}

export function panned(view: View, seconds: number): View {
  return { from: view.from + seconds, to: view.to + seconds };
}

/** Return the view between two views, for a movement from one to the other. */
export function between(first: View, second: View, part: number): View {
  const mix = (a: number, b: number) => a + (b - a) * part;
  return { from: mix(first.from, second.from), to: mix(first.to, second.to) };
}

export interface Tick {
  at: number;
  x: number;
  words: string;
  /** Whether a day begins here. */
  isDay: boolean;
}

/** Return the ticks of an axis, at round times of the clock on the wall. */
export function ticks(view: View, width: number, offset = zoneOffset): Tick[] {
  const span = view.to - view.from;
  const step = STEPS.find((each) => (each / span) * width >= TICK_PX) ?? STEPS.at(-1)!;
  const found: Tick[] = [];
  for (let at = aligned(view.from, step, offset); at <= view.to; at = aligned(at + step, step, offset, at)) {
    const local = at + offset(at);
    const isDay = local % DAY === 0;
    found.push({ at, x: xOf(view, width, at), words: tickWords(local, step, isDay), isDay });
  }
  return found;
}

/** Return the first round time at or after `at`, and after `last`: a clock may be put back in between. */
function aligned(at: number, step: number, offset: (at: number) => number, last = -1): number {
  const shift = offset(at);
  const round = Math.ceil((at + shift) / step) * step - shift;
  return round > last ? round : last + step;
}

function zoneOffset(at: number): number {
  return -new Date(at * 1000).getTimezoneOffset() * MINUTE;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function tickWords(local: number, step: number, isDay: boolean): string {
  const date = new Date(local * 1000);
  if (isDay) return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  const two = (value: number) => String(value).padStart(2, "0");
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  return step < MINUTE ? `${time}:${two(date.getUTCSeconds())}` : time;
}
