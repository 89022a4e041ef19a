/** Fills the form with an earlier job, to run it again with edits. */

import { NEUTRAL_PRIORITY, type Schemas } from "../../api/types";
import { quote } from "../../ui/format";
import { commandWords, EMPTY, type Form, jobBody } from "./form";

type Word = Schemas["JobBody"]["command"][number];

/** `rerun_of` is null if the job has not ended, so that a new one is submitted. */
export type Submission = Omit<Schemas["Submission"], "body"> & { body: Partial<Schemas["JobBody"]> };

const text = (word: Word | null | undefined): string => (typeof word === "string" ? word : "");

/** Return the form and the command of a job as it was submitted. */
export function prefilled(submission: Submission): [Form, string] {
  const { body } = submission;
  const { gpu, cpu, mem, ...others } = body.request ?? {};
  const amount = (value: number | string | undefined) => (value === undefined ? "" : String(value));
  const form: Form = {
    ...EMPTY,
    queue: body.queue === "default" ? "" : (body.queue ?? ""),
    project: body.project ?? "",
    name: body.name ?? "",
    gpu: amount(gpu),
    cpu: amount(cpu),
    mem: amount(mem),
    others: Object.entries(others)
      .map(([name, value]) => `${name}=${value}`)
      .join(" "),
    priority: body.priority === undefined || body.priority === NEUTRAL_PRIORITY ? "" : String(body.priority),
    tries: body.tries === undefined || body.tries === 1 ? "" : String(body.tries),
    cwd: text(body.cwd),
    env: (body.env ?? []).map(([name, value]) => `${text(name)}=${text(value)}`).join("\n"),
    wrap: text(body.wrap),
    output: text(body.output),
    hold: body.hold ?? false,
    time_limit: body.time_limit_s ? `${body.time_limit_s}s` : "",
    idle_limit: body.idle_limit_s ? `${body.idle_limit_s}s` : "",
    tags: Object.entries(body.tags ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(" "),
    retry_delay: (body.retry_delay_s ?? []).map((each) => `${each}s`).join(".."),
    retry_on: (body.retry_on ?? []).join(", "),
    no_retry_on: (body.no_retry_on ?? []).join(", "),
    warn: typeof body.warn_s === "number" ? [`${body.warn_s}s`, body.warn_signal].filter(Boolean).join(":") : "",
    unique: body.unique ?? "",
  };
  const words = (body.command ?? []).map(text);
  return [form, body.shell ? (words[0] ?? "") : words.map(quote).join(" ")];
}

/** Return an earlier job with the edits of its form and its command: what was not edited stays as it was. */
export function edited(submission: Submission, form: Form, command: string): Record<string, unknown> {
  const [before, commandBefore] = prefilled(submission);
  const [typed, was] = [jobBody(form), jobBody(before)];
  const body: Record<string, unknown> = { ...submission.body };
  for (const name of new Set([...Object.keys(typed), ...Object.keys(was)])) {
    if (JSON.stringify(typed[name]) === JSON.stringify(was[name])) continue;
    if (name in typed) body[name] = typed[name];
    else delete body[name];
  }
  if (command !== commandBefore) {
    const [mode, ...words] = commandWords(command);
    body.shell = mode !== "--";
    body.command = body.shell ? words.slice(1) : words;
  }
  return body;
}

/** Return the options of an earlier job that the form does not show. */
export function unseen(submission: Submission): string[] {
  const seconds = ["time_limit_s", "idle_limit_s", "retry_delay_s", "warn_s", "warn_signal"];
  const shown = ["command", "shell", ...Object.keys(EMPTY), "request", ...seconds];
  return Object.keys(submission.body).filter((name) => !shown.includes(name));
}
