/** Fills the form with an earlier job, to run it again with edits. */

import { NEUTRAL_PRIORITY, type Schemas } from "../../api/types";
import { quote } from "../../ui/format";
import { EMPTY, type Form } from "./form";

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
  };
  const words = (body.command ?? []).map(text);
  return [form, body.shell ? (words[0] ?? "") : words.map(quote).join(" ")];
}
