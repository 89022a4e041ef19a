/** Axes of the plots: from values to places between 0 and 1, and back to what a brush holds. */

import type { Column, Row, Value } from "./data";

export interface Axis {
  column: number;
  name: string;
  /** Where a value is: 0 is the lower end; null for a missing value. */
  place: (value: Value | undefined) => number | null;
  ticks: { at: number; words: string }[];
}

/** Texts of one axis; more are drawn at one place. */
const TEXTS_MAX = 40;
const TICKS = 4;

export function axisOf(column: Column, at: number, rows: readonly Row[], isLog: boolean): Axis {
  const values = rows.map((row) => row.values[at]);
  return column.kind === "number" ? numberAxis(column.name, at, values, isLog) : textAxis(column.name, at, values);
}

function numberAxis(name: string, column: number, values: readonly (Value | undefined)[], isLog: boolean): Axis {
  const numbers = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  const log = isLog && numbers.every((value) => value > 0);
  const to = (value: number) => (log ? Math.log10(value) : value);
  const low = numbers.length ? to(Math.min(...numbers)) : 0;
  const high = numbers.length ? to(Math.max(...numbers)) : 1;
  const span = high - low || 1;
  const middle = high === low ? 0.5 : 0;
  return {
    column,
    name,
    place: (value) =>
      typeof value === "number" && Number.isFinite(value) && (!log || value > 0)
        ? middle || (to(value) - low) / span
        : null,
    ticks: Array.from({ length: high === low ? 1 : TICKS + 1 }, (_, index) => {
      const at = high === low ? 0.5 : index / TICKS;
      const raw = high === low ? low : low + span * at;
      return { at, words: short(log ? 10 ** raw : raw) };
    }),
  };
}

function textAxis(name: string, column: number, values: readonly (Value | undefined)[]): Axis {
  const texts = [...new Set(values.filter((value) => value !== null && value !== undefined).map(String))]
    .toSorted((one, two) => one.localeCompare(two, "en", { numeric: true }))
    .slice(0, TEXTS_MAX);
  const places = new Map(texts.map((text, index) => [text, texts.length < 2 ? 0.5 : index / (texts.length - 1)]));
  return {
    column,
    name,
    place: (value) => (value === null || value === undefined ? null : (places.get(String(value)) ?? null)),
    ticks: texts.map((text) => ({
      at: places.get(text) ?? 0,
      words: text.length > 18 ? `${text.slice(0, 17)}…` : text,
    })),
  };
}

/** Return a number in few characters. */
export function short(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

/** By the column: the part of the axis that a brush holds. */
export type Brushes = ReadonlyMap<number, [number, number]>;

/** Return the ids of the rows that every brush holds. */
export function brushed(rows: readonly Row[], axes: readonly Axis[], brushes: Brushes): Set<number> {
  const held = axes.filter((axis) => brushes.has(axis.column));
  return new Set(
    rows
      .filter((row) =>
        held.every((axis) => {
          const place = axis.place(row.values[axis.column]);
          const [low, high] = brushes.get(axis.column) ?? [0, 1];
          return place !== null && place >= low && place <= high;
        }),
      )
      .map((row) => row.id),
  );
}
