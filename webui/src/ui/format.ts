/** Times, durations, amounts and commands, in the words of the command line. */

import type { Allocation, Job } from "../api/types";

/** Return a duration such as `1 h 12 min`, `42 s` or `3 d 4 h`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 && minutes < 10 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const withSeconds = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const otherDay = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** Return a time of today as `14:07`, of another day with its date. */
export function clock(time: string | Date | null, now = new Date()): string {
  if (time === null) return "";
  const date = typeof time === "string" ? new Date(time) : time;
  return (date.toDateString() === now.toDateString() ? sameDay : otherDay).format(date);
}

export function clockWithSeconds(time: Date): string {
  return withSeconds.format(time);
}

export function fullTime(time: string | Date | null): string {
  return time === null ? "" : whole.format(typeof time === "string" ? new Date(time) : time);
}

/** Return how long a job ran, or has run until now. */
export function ranFor(job: Pick<Job, "started" | "finished">, now = Date.now()): number | null {
  if (!job.started) return null;
  const end = job.finished ? Date.parse(job.finished) : now;
  return (end - Date.parse(job.started)) / 1000;
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = count;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** Return a count with separators: 12,345. */
export function count(value: number): string {
  return value.toLocaleString("en");
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Return words as one line for a shell, or the line itself of a job with a shell. */
export function commandLine(job: Pick<Job, "command" | "shell">): string {
  if (job.shell) return job.command[0] ?? "";
  return job.command.map(quote).join(" ");
}

export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** Return amounts such as `gpu 0.5, cpu 4`. */
export function amounts(request: Record<string, number>): string {
  return Object.entries(request)
    .map(([name, amount]) => `${name} ${amount}`)
    .join(", ");
}

/** Return where a job runs: `gpu 0, 1`, and the machine where that matters. */
export function where(allocation: Allocation | null): string {
  if (!allocation) return "";
  const held = Object.entries(allocation).filter(
    (entry): entry is [string, Record<string, number>] => typeof entry[1] === "object",
  );
  // A slot stands for its devices: with them its name says nothing new.
  const isPlain = held.length > 1 && held.some(([name]) => name !== "slot");
  return held
    .filter(([name]) => !isPlain || name !== "slot")
    .map(([name, devices]) => `${name} ${Object.keys(devices).join(", ")}`)
    .join("; ");
}

/** Show control and direction characters as pictures, so that a name cannot move or hide text around it. */
export function printable(text: string): string {
  return text.replace(CONTROLS, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : code === 0x7f ? "\u2421" : "\ufffd";
  });
}

// C0, DEL, C1, zero-width, and the marks that change the direction of text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
