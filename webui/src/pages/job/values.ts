/** The options of a job as texts that people edit, and back. */

import type { EditValue } from "./details";

/** Return a value as a text. */
export function write(name: string, value: EditValue): string {
  if (value === null) return "";
  if (Array.isArray(value)) return value.map((each) => word(each)).join("\n");
  if (typeof value === "object")
    return Object.entries(value)
      .map(([key, each]) => `${key}=${word(each)}`)
      .join(name === "require" ? " " : "\n");
  return String(value);
}

/** Return the value that a text stands for, of the kind that it had before. */
export function read(name: string, text: string | boolean, before: EditValue): EditValue {
  if (typeof text === "boolean") return text;
  if (name === "require" || (before !== null && typeof before === "object" && !Array.isArray(before)))
    return pairs(text, name === "require" ? /[\s,]+/ : /\n/);
  if (Array.isArray(before) || name === "env") return text.split("\n").filter((line) => line !== "");
  if (!text.trim()) return null;
  if (typeof before === "number") {
    const number = Number(text);
    if (!Number.isFinite(number)) throw new Error(`${name}: ${text} is not a number`);
    return number;
  }
  return /^-?\d+$/.test(text.trim()) && (name === "priority" || name === "tries") ? Number(text) : text;
}

function pairs(text: string, between: RegExp): Record<string, string | number> {
  const found: Record<string, string | number> = {};
  for (const part of text.split(between).filter(Boolean)) {
    const at = part.indexOf("=");
    if (at < 1) throw new Error(`${part}: write NAME=VALUE`);
    const value = part.slice(at + 1);
    found[part.slice(0, at)] = value.trim() && Number.isFinite(Number(value)) ? Number(value) : value;
  }
  return found;
}

/** Words that are no text are sent as documents; they are shown, and kept as they are unless they are changed. */
function word(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value);
}
