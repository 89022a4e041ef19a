/** The table of a sweep: its documents, and pure arithmetic on them. */

import type { Schemas, State } from "../../api/types";

export type Column = Schemas["SweepColumn"];

export type Value = number | string | null;

export type Row = Schemas["SweepRow"] & { state: State };

export type Sweep = Omit<Schemas["SweepTable"], "rows"> & { rows: Row[] };

/** How a column is ordered: the place of the column, or a field that every row has. */
export type SortKey = number | "id" | "state" | "seconds";

function keyOf(row: Row, key: SortKey): Value {
  if (key === "id") return row.id;
  if (key === "state") return row.state;
  if (key === "seconds") return row.seconds;
  return row.values[key] ?? null;
}

/** Return the rows in order; rows without a value are last in either direction. */
export function sorted(rows: readonly Row[], key: SortKey, descending: boolean): Row[] {
  const sign = descending ? -1 : 1;
  return rows.toSorted((one, two) => {
    const [a, b] = [keyOf(one, key), keyOf(two, key)];
    if (a === null || b === null) return a === b ? one.id - two.id : a === null ? 1 : -1;
    if (typeof a === "number" && typeof b === "number") return sign * (a - b) || one.id - two.id;
    return sign * String(a).localeCompare(String(b), "en", { numeric: true }) || one.id - two.id;
  });
}

/** Return the row with the best number in a column; null if no row has one. */
export function best(rows: readonly Row[], column: number, isLower: boolean): Row | null {
  let found: Row | null = null;
  for (const row of rows) {
    const value = row.values[column];
    if (typeof value !== "number") continue;
    const held = found?.values[column];
    if (typeof held !== "number" || (isLower ? value < held : value > held)) found = row;
  }
  return found;
}

/** Return the best number so far after each ended row, in the order in which the rows ended. */
export function bestSoFar(
  rows: readonly Row[],
  column: number,
  isLower: boolean,
): { times: number[]; values: number[]; bests: number[] } {
  const ended = rows
    .filter((row) => row.finished !== null && typeof row.values[column] === "number")
    .toSorted((one, two) => Date.parse(one.finished ?? "") - Date.parse(two.finished ?? ""));
  const times: number[] = [];
  const values: number[] = [];
  const bests: number[] = [];
  for (const row of ended) {
    const value = row.values[column] as number;
    const last = bests[bests.length - 1];
    times.push(Date.parse(row.finished ?? "") / 1000);
    values.push(value);
    bests.push(last === undefined ? value : isLower ? Math.min(last, value) : Math.max(last, value));
  }
  return { times, values, bests };
}

/** Guess whether lower is better by the name of a result: losses, errors and times are. */
export function isLowerBetter(name: string): boolean {
  return /loss|err|time|second|rmse|mse|mae|perplexity|ppl|latency|wer|fid|nll/i.test(name);
}

/** Return the limits of a sweep in few words: `4 at once, stops after 2 failures`. */
export function sweepLimits(sweep: Pick<Sweep, "at_once" | "max_fails" | "stopped">): string {
  if (sweep.stopped) return "stopped";
  const fails = sweep.max_fails === 1 ? "1 failure" : `${sweep.max_fails} failures`;
  return [
    sweep.at_once === null ? "" : `${sweep.at_once} at once`,
    sweep.max_fails === null ? "" : `stops after ${fails}`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** Return the query that finds the jobs of a sweep, or of a name. */
export function queryOf(sweep: Pick<Sweep, "id" | "name"> | null, name: string): string {
  return sweep && sweep.id !== null ? `sweep:${sweep.id}` : `name:${sweep?.name ?? name}`;
}
