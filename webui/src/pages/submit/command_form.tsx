/** Commands, one a line: each line is a job. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { change, get, words } from "../../api/client";
import type { Schemas } from "../../api/types";
import { go } from "../../router";
import { directory } from "../../session";
import { plural } from "../../ui/format";
import { Copy, Problem } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import { commandLine, commandWords, type Form, jobBody, lines, optionWords, wholes } from "./form";
import { existingWords } from "./many";
import { newForm, OptionsFields } from "./options_fields";
import { edited, prefilled, type Submission, unseen } from "./prefill";
import { TrialView, useTrial } from "./trial";
import { Where } from "./where";

export type Submitted = Schemas["Submitted"];

/** Go to the job that was submitted, or to the list of the jobs. */
export function follow(ids: readonly number[]): void {
  const [first] = ids;
  if (first === undefined) return;
  const last = ids[ids.length - 1] ?? first;
  go(ids.length === 1 ? `/jobs/${first}` : `/jobs?q=${encodeURIComponent(`id:${first}-${last}`)}`);
}

/** Submit an earlier job with edits, as another run of it if it has ended. */
function submitAgain(of: Submission, form: Form, command: string): Promise<Submitted> {
  return change("/v1/submit", { jobs: [edited(of, form, command)], rerun_of: of.rerun_of });
}

async function submitAll(job: Record<string, unknown>, commands: readonly string[]): Promise<Submitted> {
  const done = await change("/v1/submit-many", { job, commands });
  const ids = Array.from({ length: done.count }, (_, index) => done.first + index);
  return { ids, warnings: done.warnings, ...(done.existing ? { existing: true } : {}) };
}

/** Return what the daemon is asked to try: an earlier job has what was not edited. */
function tryBody(
  of: Submission | null,
  form: Form,
  command: string,
  commands: readonly string[],
): Record<string, unknown> {
  if (!of) return { job: jobBody(form), commands };
  const { command: words, shell, ...job } = edited(of, form, command);
  return { job, commands: [shell ? (words as unknown[])[0] : words] };
}

/** Compute something of what was typed; an error in the typed text becomes words. */
export function tried<T>(compute: () => T): { value: T; problem: null } | { value: null; problem: string } {
  try {
    return { value: compute(), problem: null };
  } catch (error) {
    return { value: null, problem: words(error) };
  }
}

export function CommandForm(props: { from: string | null }) {
  const form = useSignal<Form>(newForm());
  const text = useSignal("");
  /** The job whose form this is; null for a new one. */
  const earlier = useSignal<Submission | null>(null);
  const commands = useComputed(() => (earlier.value ? wholes(text.value) : lines(text.value)));
  const body = useComputed(() => tried(() => jobBody(form.value)));
  const typed = useComputed(() => tried(() => commandLine(form.value, commands.value)));
  const first = useComputed(() => {
    const [first] = commands.value;
    if (first === undefined || body.value.problem) return null;
    return [...optionWords(form.value), ...commandWords(first)];
  });
  useEffect(() => {
    if (!props.from || !/^\d+$/.test(props.from)) return;
    get(`/v1/jobs/${props.from}/submission`)
      .then((submission) => {
        [form.value, text.value] = prefilled(submission);
        earlier.value = submission;
      })
      .catch((error: unknown) => void attempt(() => Promise.reject(error)));
  }, [props.from, form, text, earlier]);
  const submit = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      const done = earlier.value
        ? await submitAgain(earlier.value, form.value, text.value)
        : await submitAll(jobBody(form.value), commands.value);
      directory.value = form.value.cwd;
      follow(done.ids);
      const what = done.existing ? existingWords(done.ids[0] ?? 0) : `${plural(done.ids.length, "job")} submitted`;
      return [what, ...done.warnings].join("; ");
    });
  };
  const count = commands.value.length;
  const sent = count && body.value.value ? tryBody(earlier.value, form.value, text.value, commands.value) : null;
  const trial = useTrial(sent, false);
  return (
    <form class="submit" onSubmit={submit}>
      <div class="panel">
        <label class="wide">
          {earlier.value ? "Command" : "Command; each line is a job of its own"}
          <textarea
            name="command"
            rows={Math.min(14, Math.max(3, text.value.split("\n").length + 1))}
            spellcheck={false}
            placeholder="python train.py --lr 0.1"
            value={text.value}
            onInput={(event) => {
              text.value = event.currentTarget.value;
            }}
          />
        </label>
        <OptionsFields form={form} />
      </div>
      <div class="panel" aria-live="polite">
        <h2>What will run</h2>
        {count ? (
          <p class="command-preview">
            <code>{typed.value.value ?? ""}</code>
            {typed.value.value ? <Copy text={typed.value.value} label="Copy as CLI" /> : null}
          </p>
        ) : null}
        {earlier.value ? <Earlier submission={earlier.value} /> : null}
        {count > 1 ? <p>{plural(count, "job")}, one for each line.</p> : null}
        <Problem words={body.value.problem} />
        {count > 1 ? <h3>Where the first would run</h3> : null}
        {body.value.problem ? null : <Where words={first.value} cwd={form.value.cwd} />}
        <TrialView trial={trial} isDisabled={!sent} />
        <button type="submit" class="primary" disabled={!count || body.value.problem !== null}>
          {count > 1 ? `Submit ${plural(count, "job")}` : "Submit"}
        </button>
      </div>
    </form>
  );
}

/** What becomes of the job that the form was filled with. */
function Earlier(props: { submission: Submission }) {
  const { rerun_of: again, left_out: left } = props.submission;
  const kept = unseen(props.submission);
  return (
    <>
      {again !== null ? (
        <p>
          This runs <a href={`/jobs/${again}`}>job {again}</a> again, with your edits, in its environment.
        </p>
      ) : null}
      {kept.length ? (
        <p class="faint">As it was, also where the command above does not say it: {named(kept)}.</p>
      ) : null}
      {left.length ? <p class="faint">Left out, because this session may not see it: {named(left)}.</p> : null}
    </>
  );
}

function named(options: readonly string[]): string {
  return options.map((name) => name.replaceAll("_", " ")).join(", ");
}
