/** GPUPeasy's batch text: NAME;;OUTFILE;;COMMAND;;; for each job. All jobs are checked before one is submitted. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { change, newKey, post } from "../../api/client";
import type { Schemas } from "../../api/types";
import { path, query } from "../../router";
import { directory } from "../../session";
import { commandLine, plural } from "../../ui/format";
import { useAnswer } from "../../ui/hooks";
import { PlainTable, Problem, Text } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import { follow, tried } from "./command_form";
import { type Form, GPUPEASY_QUEUE, jobBody } from "./form";
import { newForm, OptionsFields } from "./options_fields";

/** The daemon checks when nothing was typed for this long. */
const PAUSE_MS = 350;
const SHOWN = 50;
const EXAMPLE = "small;;out/small.txt;;python train.py --size 1;;;\nlarge;;out/large.txt;;python train.py --size 9;;;";

type Checked = Schemas["Check"];

export function BatchForm() {
  // GPUPeasy's form adds to GPUPeasy's queue.
  const queue = query.value.get("queue") ?? (path.value === "/batchaddjobs" ? GPUPEASY_QUEUE : "");
  const form = useSignal<Form>({ ...newForm(), queue });
  const text = useSignal("");
  const settled = useSignal<string | null>(null);
  const body = useComputed(() => tried(() => jobBody(form.value)));
  const asked = text.value.trim() && body.value.value ? JSON.stringify([text.value, body.value.value]) : null;
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = asked;
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [asked, settled]);
  const found = useAnswer<Checked>(settled.value, () => {
    const [batch, job] = JSON.parse(settled.value ?? "[]") as [string, object];
    return post("/v1/check", { key: newKey(), batch, job });
  });
  const checked = settled.value ? found.value : null;
  const submit = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      const done = await change("/v1/submit-batch", { text: text.value, job: jobBody(form.value) });
      directory.value = form.value.cwd;
      follow(done.ids);
      return [`${plural(done.ids.length, "job")} submitted`, ...done.warnings].join("; ");
    });
  };
  const ready = checked !== null && checked.count > 0 && checked.problems.length === 0 && asked === settled.value;
  return (
    <form class="submit" onSubmit={submit}>
      <div class="panel">
        <label class="wide">
          NAME;;OUTFILE;;COMMAND;;; for each job
          <textarea
            name="batch"
            rows={10}
            spellcheck={false}
            placeholder={EXAMPLE}
            value={text.value}
            onInput={(event) => {
              text.value = event.currentTarget.value;
            }}
          />
        </label>
        <OptionsFields form={form} without={["name", "output"]} />
      </div>
      <div class="panel" aria-live="polite">
        <h2>What will run</h2>
        <Problem words={body.value.problem ?? found.error} />
        {checked?.problems.map((problem) => (
          <Problem
            key={`${problem.line} ${problem.why}`}
            words={`${problem.line === null ? "" : `line ${problem.line}: `}${problem.why}`}
          />
        ))}
        {checked?.warnings.map((words) => (
          <p key={words} class="note">
            <Text>{words}</Text>
          </p>
        ))}
        {checked?.count ? (
          <PlainTable heads={["Name", "Outfile", "Command"]}>
            {checked.jobs.slice(0, SHOWN).map((job) => (
              <tr key={`${job.line} ${job.name} ${job.output}`}>
                <td>
                  <Text>{job.name}</Text>
                </td>
                <td class="mono">
                  <Text>{job.output}</Text>
                </td>
                <td class="mono clip">
                  <Text>{commandLine(job)}</Text>
                </td>
              </tr>
            ))}
          </PlainTable>
        ) : (
          <p class="faint">
            Type a batch, and this shows what each job would run. One wrong job stops the whole batch.
          </p>
        )}
        <button type="submit" class="primary" disabled={!ready}>
          {checked?.count ? `Submit ${plural(checked.count, "job")}` : "Submit"}
        </button>
      </div>
    </form>
  );
}
