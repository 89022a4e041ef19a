/** Durations, start times and lists, as people type them in a form. */

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };

/** Return a duration such as `90s`, `1h30m` or `2d` in seconds; a number alone counts seconds. */
export function duration(text: string, what: string): number {
  const typed = text.trim().toLowerCase();
  const parts = [...typed.matchAll(/(\d+(?:\.\d+)?)\s*([smhdw]?)\s*/g)];
  const isWhole = parts.length > 0 && parts.map((part) => part[0]).join("") === typed;
  const hasUnits = parts.length === 1 || parts.every((part) => part[2]);
  if (!isWhole || !hasUnits)
    throw new Error(`${what}: ${JSON.stringify(text)} is not a duration such as 90s, 2h or 1d`);
  return parts.reduce((sum, part) => sum + Number(part[1]) * (UNITS[part[2] || "s"] ?? 1), 0);
}

/** Return the first and the longest of growing delays: `30s..10m`, or one delay. */
export function delays(text: string, what: string): [number, number] {
  const [first = "", last] = text.split("..", 2);
  const low = duration(first, what);
  return [low, last === undefined ? low : duration(last, what)];
}

/** Return a warning before a time limit: `60s`, or `60s:TERM` with a signal. */
export function warning(text: string, what: string): { warn_s: number; warn_signal?: string } {
  const at = text.indexOf(":");
  if (at < 0) return { warn_s: duration(text, what) };
  return { warn_s: duration(text.slice(0, at), what), warn_signal: text.slice(at + 1).trim() };
}

/** Return a start time in seconds since the epoch: a time of day of today or tomorrow, or a date. */
export function startTime(text: string, what: string, now: Date = new Date()): number {
  const daily = /^(\d{1,2}):(\d{2})$/.exec(text.trim());
  if (daily) {
    const at = new Date(now);
    at.setHours(Number(daily[1]), Number(daily[2]), 0, 0);
    if (at <= now) at.setDate(at.getDate() + 1);
    return at.getTime() / 1000;
  }
  const at = new Date(text.trim().replace(" ", "T")).getTime();
  if (Number.isNaN(at))
    throw new Error(`${what}: ${JSON.stringify(text)} is not a time such as 18:00 or 2026-12-01T08:00`);
  return at / 1000;
}

/** Return the words of a list that is written with blanks or commas. */
export function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}
