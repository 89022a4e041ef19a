/** Many jobs of one command: an array, the rows of a list, or a sweep. The daemon expands them; this writes them down. */

import { quote } from "../../ui/format";
import { commandWords, type Form, jobBody, lines, number, optionWords } from "./form";

/** Where the jobs come from. */
export type Kind = "array" | "each" | "grid";

export interface Parameter {
  name: string;
  /** Values and ranges with blanks or commas between them; a value in quotes may have both. */
  values: string;
}

export type RowsKind = "csv" | "jsonl" | "txt";

export interface Source {
  array: string;
  rows: string;
  rowsKind: RowsKind;
  /** The name of the file that was chosen. */
  file: string;
  parameters: Parameter[];
  /** Points that are left out, one NAME=VALUE NAME=VALUE a line. */
  exclude: string;
  at_once: string;
  max_fails: string;
}

export const NO_SOURCE: Source = {
  array: "",
  rows: "",
  rowsKind: "csv",
  file: "",
  parameters: [{ name: "lr", values: "0.1 0.01 0.001" }],
  exclude: "",
  at_once: "",
  max_fails: "",
};

/** Return the kind of a list by the name of its file; null if the name does not tell. */
export function rowsKindOf(file: string): RowsKind | null {
  const end = file.toLowerCase().split(".").pop();
  if (end === "ndjson") return "jsonl";
  return end === "csv" || end === "jsonl" || end === "txt" ? end : null;
}

/** Return the values that were typed, as words; a range stays as it is. */
export function values(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|([^\s,]+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}

function typedParameters(source: Source): Parameter[] {
  return source.parameters.filter((each) => each.name.trim() || each.values.trim());
}

/** Return whether something was typed that jobs can come from. */
export function isBegun(kind: Kind, command: string, source: Source): boolean {
  if (!command.trim()) return false;
  if (kind === "array") return source.array.trim() !== "";
  return kind === "each" ? source.rows.trim() !== "" : typedParameters(source).length > 0;
}

/** Return the body of a request for many jobs; raise for what is no number, and for a parameter that is there twice. */
export function manyBody(kind: Kind, form: Form, command: string, source: Source): Record<string, unknown> {
  const atOnce = number(source.at_once, "at once");
  const maxFails = number(source.max_fails, "max fails");
  const sweep = {
    definition: definition(kind, command, source).slice(0, 4_000),
    ...(atOnce !== null ? { at_once: atOnce } : {}),
    ...(maxFails !== null ? { max_fails: maxFails } : {}),
  };
  const job = jobBody(form);
  if (kind === "grid") {
    const parameters: Record<string, string[]> = {};
    for (const each of typedParameters(source)) {
      const name = each.name.trim();
      if (Object.hasOwn(parameters, name)) throw new Error(`parameter ${JSON.stringify(name)} is there twice`);
      parameters[name] = values(each.values);
    }
    return { job, commands: [command], sweep, grid: { parameters, exclude: lines(source.exclude) } };
  }
  const [mode, ...words] = commandWords(command);
  const commands = [mode === "--" ? words : command];
  if (kind === "array") return { job, commands, sweep, array: source.array.trim() };
  const rows = { text: source.rows, kind: source.rowsKind, file: source.file || "the list" };
  return { job, commands, sweep, rows };
}

function limits(source: Source): string[] {
  const option = (name: string, value: string) => (value.trim() ? [`--${name}`, value.trim()] : []);
  return [...option("at-once", source.at_once), ...option("max-fails", source.max_fails)];
}

/** Return what was typed of a sweep, for people to read. */
function definition(kind: Kind, command: string, source: Source): string {
  if (kind === "array") return `--array ${source.array.trim()}`;
  if (kind === "each") return `--each ${fileName(source)}`;
  return [command, ...sweepWords(source)].map(quote).join(" ");
}

function fileName(source: Source): string {
  return source.file || `rows.${source.rowsKind}`;
}

function sweepWords(source: Source): string[] {
  return [
    ...typedParameters(source).flatMap((each) => ["-p", each.name.trim(), ...values(each.values)]),
    ...lines(source.exclude).flatMap((each) => ["--exclude", each]),
  ];
}

/** Return what to type for the same. */
export function manyLine(kind: Kind, form: Form, command: string, source: Source): string {
  const options = [...optionWords(form), ...limits(source)];
  if (kind === "grid")
    return ["grass", "sweep", command, ...sweepWords(source), "--sampling-mode", "grid", ...options]
      .map(quote)
      .join(" ");
  const many = kind === "array" ? ["--array", source.array.trim()] : ["--each", fileName(source)];
  return ["grass", "enqueue", ...many, ...options, ...commandWords(command)].map(quote).join(" ");
}

/** Return what is said where a job with the same unique key is not finished. */
export function existingWords(id: number): string {
  return `job ${id} with this unique key is not finished; nothing was queued`;
}
