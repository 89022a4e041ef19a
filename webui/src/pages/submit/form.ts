/** What the form says: as the body of a request, and as the command line that means the same. */

import { quote } from "../../ui/format";
import { delays, duration, startTime, warning, words } from "./times";

export interface Form {
  queue: string;
  project: string;
  name: string;
  gpu: string;
  cpu: string;
  mem: string;
  /** Amounts of other resources, such as `printer=1`. */
  others: string;
  priority: string;
  tries: string;
  cwd: string;
  /** One NAME=value a line. */
  env: string;
  wrap: string;
  output: string;
  hold: boolean;
  /** Selectors of the jobs that this one starts after. */
  after: string;
  after_any: string;
  after_fail: string;
  /** A start time, or a delay. */
  at: string;
  delay: string;
  time_limit: string;
  idle_limit: string;
  /** KEY=VALUE words. */
  tags: string;
  retry_delay: string;
  retry_on: string;
  no_retry_on: string;
  /** How long before the time limit a signal is sent, and which: 60s or 60s:TERM. */
  warn: string;
  unique: string;
}

export const EMPTY: Form = {
  queue: "",
  project: "",
  name: "",
  gpu: "",
  cpu: "",
  mem: "",
  others: "",
  priority: "",
  tries: "",
  cwd: "",
  env: "",
  wrap: "",
  output: "",
  hold: false,
  after: "",
  after_any: "",
  after_fail: "",
  at: "",
  delay: "",
  time_limit: "",
  idle_limit: "",
  tags: "",
  retry_delay: "",
  retry_on: "",
  no_retry_on: "",
  warn: "",
  unique: "",
};

/** The queue that `gpupeasy-server` makes. */
export const GPUPEASY_QUEUE = "gpupeasy";

/** Return the lines that say something. */
export function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line && !line.startsWith("#"));
}

/** Return a text as the one command that it is, or nothing. */
export function wholes(text: string): string[] {
  return text.trim() ? [text] : [];
}

/** Return NAME=value pairs; raise for a line that is none. */
export function pairs(text: string, what: string): [string, string][] {
  return lines(text).map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${what}: ${JSON.stringify(line)} is not NAME=value`);
    return [line.slice(0, at), line.slice(at + 1)];
  });
}

/** Return the amounts as typed; null if none was typed, which means the default request of the queue. */
export function request(form: Form): Record<string, string> | null {
  const named = { gpu: form.gpu, cpu: form.cpu, mem: form.mem };
  const typed = Object.entries(named).filter(([, amount]) => amount.trim());
  const others = form.others
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((word) => {
      const at = word.indexOf("=");
      if (at < 1) throw new Error(`other amounts: ${JSON.stringify(word)} is not NAME=AMOUNT`);
      return [word.slice(0, at), word.slice(at + 1)] as const;
    });
  const all = [...typed, ...others].map(([name, amount]) => [name, amount.trim()] as const);
  return all.length ? Object.fromEntries(all) : null;
}

/** A whole number, or null for the default; raise for anything else. */
export function number(text: string, what: string): number | null {
  if (!text.trim()) return null;
  if (!/^-?\d{1,7}$/.test(text.trim())) throw new Error(`${what}: ${JSON.stringify(text)} is not a whole number`);
  return Number(text);
}

/** Return the options of the job as the API takes them; what was not typed is left out. */
export function jobBody(form: Form): Record<string, unknown> {
  const amounts = request(form);
  const env = pairs(form.env, "environment");
  const priority = number(form.priority, "priority");
  const tries = number(form.tries, "tries");
  return {
    ...(form.queue ? { queue: form.queue } : {}),
    ...(form.project ? { project: form.project } : {}),
    ...(form.name ? { name: form.name } : {}),
    ...(amounts ? { request: amounts } : {}),
    ...(priority !== null ? { priority } : {}),
    ...(tries !== null ? { tries } : {}),
    ...(form.cwd ? { cwd: form.cwd } : {}),
    ...(env.length ? { env } : {}),
    ...(form.wrap ? { wrap: form.wrap } : {}),
    ...(form.output ? { output: form.output } : {}),
    ...(form.hold ? { hold: true } : {}),
    ...(form.unique.trim() ? { unique: form.unique.trim() } : {}),
    ...waitingBody(form),
  };
}

/** Return the options that say when a job starts, how long it may run, and when it is tried again. */
function waitingBody(form: Form): Record<string, unknown> {
  const said: Record<string, unknown> = {};
  for (const name of ["after", "after_any", "after_fail"] as const) {
    if (form[name].trim()) said[name] = form[name].trim().split(/\s+/);
  }
  if (form.at.trim()) said.at = startTime(form.at, "start time");
  if (form.delay.trim()) said.in_s = duration(form.delay, "delay");
  if (form.time_limit.trim()) said.time_limit_s = duration(form.time_limit, "time limit");
  if (form.warn.trim()) Object.assign(said, warning(form.warn, "warn"));
  if (form.idle_limit.trim()) said.idle_limit_s = duration(form.idle_limit, "idle limit");
  if (form.tags.trim()) said.tags = Object.fromEntries(pairs(words(form.tags).join("\n"), "tags"));
  if (form.retry_delay.trim()) said.retry_delay_s = delays(form.retry_delay, "retry delay");
  if (form.retry_on.trim()) said.retry_on = words(form.retry_on);
  if (form.no_retry_on.trim()) said.no_retry_on = words(form.no_retry_on);
  return said;
}

/** Return the options as words of `grass enqueue`. */
export function optionWords(form: Form): string[] {
  const typed: string[] = [];
  const option = (name: string, value: string) => {
    if (value.trim()) typed.push(`--${name}`, value.trim());
  };
  option("queue", form.queue);
  for (const [name, amount] of Object.entries(request(form) ?? {})) typed.push(`--${name}=${amount}`);
  option("project", form.project);
  option("name", form.name);
  option("priority", form.priority);
  option("tries", form.tries);
  option("cwd", form.cwd);
  for (const [name, value] of pairs(form.env, "environment")) typed.push("--env", `${name}=${value}`);
  option("wrap", form.wrap);
  option("output", form.output);
  if (form.hold) typed.push("--hold");
  for (const name of ["after", "after-any", "after-fail"] as const) {
    for (const each of form[name.replace("-", "_") as "after"].split(/\s+/).filter(Boolean)) option(name, each);
  }
  option("at", form.at);
  option("in", form.delay);
  option("time-limit", form.time_limit);
  option("warn", form.warn);
  option("idle-limit", form.idle_limit);
  for (const [key, value] of pairs(words(form.tags).join("\n"), "tags")) option("tag", `${key}=${value}`);
  option("retry-delay", form.retry_delay);
  option("retry-on", words(form.retry_on).join(","));
  option("no-retry-on", words(form.no_retry_on).join(","));
  option("unique", form.unique);
  return typed;
}

/** Words that every shell passes on unchanged, and `{gpu}`, which Grass fills in. */
const PLAIN = /^(?:[\w@%+=:,./ -]|\{[a-z][a-z0-9_]*\})+$/;

/** A line of plain words runs without a shell, as with `grass enqueue --stdin`; any other line is a shell's. */
export function commandWords(line: string): string[] {
  return PLAIN.test(line) ? ["--", ...line.split(/ +/).filter(Boolean)] : ["--shell", "--", line];
}

/** Return what to type for the same: one command, or many lines from stdin. */
export function commandLine(form: Form, commands: readonly string[]): string {
  const options = optionWords(form).map(quote);
  const first = commands[0] ?? "";
  if (commands.length === 1) return ["grass enqueue", ...options, ...commandWords(first).map(quote)].join(" ");
  return [`${["grass enqueue", ...options, "--stdin"].join(" ")} <<'END'`, ...commands, "END"].join("\n");
}
