/** Grids: a command with `{name}` in it, the values of each name, and one command for each combination. */

import { quote } from "../../ui/format";

/** The most jobs that the page submits at once; `grass sweep` takes more. */
export const POINTS_MAX = 2_000;

export interface Parameter {
  name: string;
  /** Values with blanks between them; `1..5` and `1..9..2` are ranges of whole numbers. */
  values: string;
}

export type Point = Record<string, string>;

/** Return the values that were typed: words, quoted words, and ranges of whole numbers. */
export function values(text: string): string[] {
  const found: string[] = [];
  for (const [, quoted, plain] of text.matchAll(/"([^"]*)"|([^\s,]+)/g)) {
    const range = plain === undefined ? null : /^(-?\d+)\.\.(-?\d+)(?:\.\.(\d+))?$/.exec(plain);
    if (!range) found.push(quoted ?? plain ?? "");
    else {
      const [first, last, step] = [Number(range[1]), Number(range[2]), Number(range[3] ?? 1)];
      if (step < 1 || Math.abs(last - first) / step > POINTS_MAX) throw new Error(`${plain}: the range is too long`);
      for (let value = first; first <= last ? value <= last : value >= last; value += first <= last ? step : -step)
        found.push(String(value));
    }
  }
  return found;
}

/** Return every combination, the last name changing fastest; raise if there are too many, or a name has no value. */
export function points(parameters: readonly Parameter[]): Point[] {
  let all: Point[] = [{}];
  for (const { name, values: text } of parameters) {
    if (!/^[A-Za-z_]\w*$/.test(name)) throw new Error(`${JSON.stringify(name)} is no name of a parameter`);
    const each = values(text);
    if (!each.length) throw new Error(`${name} has no values`);
    if (all.length * each.length > POINTS_MAX)
      throw new Error(`more than ${POINTS_MAX.toLocaleString("en")} combinations; \`grass sweep\` takes more`);
    all = all.flatMap((point) => each.map((value) => ({ ...point, [name]: value })));
  }
  return all;
}

/** Return the command of one point; `{gpu}` and other names that are no parameter stay. */
export function fill(template: string, point: Point): string {
  return template.replace(/\{(\w+)\}/g, (whole, name: string) => point[name] ?? whole);
}

/** Return the names in the template that have no values. */
export function unknownNames(template: string, parameters: readonly Parameter[]): string[] {
  const known = new Set([...parameters.map((each) => each.name), "gpu", "cpu", "mem"]);
  return [...new Set([...template.matchAll(/\{(\w+)\}/g)].map((found) => found[1] ?? ""))].filter(
    (name) => !known.has(name),
  );
}

/** Return what to type for the same. */
export function sweepLine(template: string, parameters: readonly Parameter[], options: readonly string[]): string {
  const typed = parameters.flatMap(({ name, values: text }) => ["-p", name, ...values(text)]);
  return ["grass", "sweep", template, ...typed, ...options].map(quote).join(" ");
}
