/** A queue that is being defined: the words of `grass create-queue` that make it. */

import { quote } from "../../ui/format";

export interface Definition {
  name: string;
  /** A worker's name, or "" for all workers. */
  worker: string;
  label: string;
  gpu: string;
  cpu: string;
  mem: string;
  /** Limits of other resources, such as `printer=1`. */
  others: string;
  command: string;
  cwd: string;
  wrap: string;
}

export const EMPTY: Definition = {
  name: "",
  worker: "",
  label: "",
  gpu: "",
  cpu: "",
  mem: "",
  others: "",
  command: "",
  cwd: "",
  wrap: "",
};

/** Split a line into words as a shell does; raise for a quote that does not end. */
export function shellWords(line: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let mark: string | null = null;
  for (let at = 0; at < line.length; at++) {
    const character = line[at]!;
    if (mark) {
      if (character === mark) mark = null;
      else if (character === "\\" && mark === '"' && /["\\$`]/.test(line[at + 1] ?? "")) word += line[++at]!;
      else word += character;
    } else if (character === "'" || character === '"') {
      mark = character;
      word ??= "";
    } else if (character === "\\" && at + 1 < line.length) word = (word ?? "") + line[++at]!;
    else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + character;
  }
  if (mark) throw new Error(`the command has a ${mark} that does not end`);
  if (word !== null) words.push(word);
  return words;
}

/** Return the words after `grass create-queue`; raise for what cannot be words. */
export function queueWords(definition: Definition): string[] {
  const words = [definition.name.trim()];
  for (const name of ["gpu", "cpu", "mem"] as const) {
    const amount = definition[name].trim();
    if (amount) words.push(`--${name}=${amount}`);
  }
  for (const word of definition.others.split(/[\s,]+/).filter(Boolean)) {
    if (!/^[^=]+=.+$/.test(word)) throw new Error(`other limits: ${JSON.stringify(word)} is not NAME=AMOUNT`);
    words.push(`--${word}`);
  }
  if (definition.cwd.trim()) words.push("--cwd", definition.cwd.trim());
  if (definition.wrap.trim()) words.push("--wrap", definition.wrap.trim());
  if (definition.worker) words.push("--worker", definition.worker);
  else
    words.push(
      "--at-broker",
      ...definition.label
        .split(/[\s,]+/)
        .filter(Boolean)
        .flatMap((label) => ["--label", label]),
    );
  const command = shellWords(definition.command);
  return command.length ? [...words, "--", ...command] : words;
}

export function commandOf(definition: Definition): string {
  return ["grass create-queue", ...queueWords(definition).map(quote)].join(" ");
}
