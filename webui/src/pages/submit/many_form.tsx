/** Many jobs of one command: an array, the rows of a list, or a sweep; with a look at what comes of it. */

import { useComputed, useSignal } from "@preact/signals";
import { change } from "../../api/client";
import { go } from "../../router";
import { directory } from "../../session";
import { TextField } from "../../ui/field";
import { plural } from "../../ui/format";
import { Copy, Problem } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import { tried } from "./command_form";
import type { Form } from "./form";
import { existingWords, isBegun, type Kind, manyBody, manyLine, NO_SOURCE, type Source } from "./many";
import { newForm, OptionsFields } from "./options_fields";
import { RowsField } from "./rows_field";
import { TrialView, useTrial } from "./trial";

const COMMANDS: Record<Kind, { label: string; hint: string }> = {
  array: { label: "Command, with {index} for the number of each job", hint: "python train.py --seed {index}" },
  each: { label: "Command, with {column} for a value of each row", hint: "python train.py --lr {lr}" },
  grid: { label: "Command, with {name} for each parameter", hint: "python train.py --lr {lr}" },
};

export function ManyForm(props: { kind: Kind }) {
  const { kind } = props;
  const form = useSignal<Form>(newForm());
  const command = useSignal("");
  const source = useSignal<Source>(NO_SOURCE);
  const set = (changes: Partial<Source>) => {
    source.value = { ...source.value, ...changes };
  };
  const line = useComputed(() => command.value.trim());
  const body = useComputed(() =>
    isBegun(kind, line.value, source.value) ? tried(() => manyBody(kind, form.value, line.value, source.value)) : null,
  );
  const sent = body.value?.value ?? null;
  const trial = useTrial(sent, true);
  const typed = sent ? manyLine(kind, form.value, line.value, source.value) : "";
  const count = trial.isCurrent && !trial.error ? (trial.value?.count ?? 0) : 0;
  const submit = (event: Event) => {
    event.preventDefault();
    if (!sent) return;
    void attempt(async () => {
      const done = await change("/v1/submit-many", sent);
      directory.value = form.value.cwd;
      go(done.existing ? `/jobs/${done.first}` : `/sweeps/sweep:${done.first}`);
      const what = done.existing ? existingWords(done.first) : `sweep:${done.first}: ${plural(done.count, "job")}`;
      return [what, ...done.warnings].join("; ");
    });
  };
  return (
    <form class="submit" onSubmit={submit}>
      <div class="panel">
        <label class="wide">
          {COMMANDS[kind].label}
          <textarea
            name="template"
            rows={3}
            spellcheck={false}
            placeholder={COMMANDS[kind].hint}
            value={command.value}
            onInput={(event) => {
              command.value = event.currentTarget.value;
            }}
          />
        </label>
        {kind === "array" ? (
          <TextField
            label="Indexes; behind % the most that run at once"
            name="array"
            hint="0-99, 0-99:2, 1,3,5-9 or 0-99%8"
            class="wide"
            value={source.value.array}
            onChange={(array) => set({ array })}
          />
        ) : null}
        {kind === "each" ? <RowsField source={source.value} set={set} /> : null}
        {kind === "grid" ? <Parameters source={source.value} set={set} /> : null}
        <div class="options">
          <TextField
            label="At once"
            name="at_once"
            hint="the most that run"
            value={source.value.at_once}
            onChange={(at_once) => set({ at_once })}
          />
          <TextField
            label="Max fails"
            name="max_fails"
            hint="then nothing more starts"
            value={source.value.max_fails}
            onChange={(max_fails) => set({ max_fails })}
          />
        </div>
        <OptionsFields form={form} without={["unique"]} />
      </div>
      <div class="panel" aria-live="polite">
        <h2>What will run</h2>
        {typed ? (
          <p class="command-preview">
            <code>{typed}</code> <Copy text={typed} label="Copy as CLI" />
          </p>
        ) : null}
        <Problem words={body.value?.problem ?? null} />
        <TrialView trial={trial} isDisabled={!sent} />
        <button type="submit" class="primary" disabled={!sent || (trial.isCurrent && trial.error !== null)}>
          {count ? `Submit ${plural(count, "job")}` : "Submit"}
        </button>
      </div>
    </form>
  );
}

function Parameters(props: { source: Source; set: (changes: Partial<Source>) => void }) {
  const { parameters, exclude } = props.source;
  const put = (at: number, part: Partial<(typeof parameters)[number]>) =>
    props.set({ parameters: parameters.map((each, index) => (index === at ? { ...each, ...part } : each)) });
  return (
    <>
      <fieldset class="parameters">
        <legend>Parameters: values, or ranges such as 0..4, 32..256*2 and log:1e-5..1e-1:20</legend>
        {parameters.map((each, at) => (
          <div key={at} class="parameter">
            <input
              aria-label={`Name of parameter ${at + 1}`}
              placeholder="name"
              value={each.name}
              onInput={(event) => put(at, { name: event.currentTarget.value })}
            />
            <input
              aria-label={`Values of parameter ${at + 1}`}
              placeholder="0.1 0.01 or 0..4"
              value={each.values}
              onInput={(event) => put(at, { values: event.currentTarget.value })}
            />
            <button
              type="button"
              class="quiet"
              aria-label={`Remove parameter ${at + 1}`}
              onClick={() => props.set({ parameters: parameters.filter((_, index) => index !== at) })}
            >
              ×
            </button>
          </div>
        ))}
        <button type="button" onClick={() => props.set({ parameters: [...parameters, { name: "", values: "" }] })}>
          Add a parameter
        </button>
      </fieldset>
      <label class="wide">
        Leave out, one NAME=VALUE NAME=VALUE a line
        <textarea
          name="exclude"
          rows={2}
          spellcheck={false}
          placeholder="lr=0.1 bs=256"
          value={exclude}
          onInput={(event) => props.set({ exclude: event.currentTarget.value })}
        />
      </label>
    </>
  );
}
