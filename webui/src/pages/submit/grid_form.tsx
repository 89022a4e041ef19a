/** The grid builder: a command with names in it, values for each name, and a look at what comes of it. */

import { useComputed, useSignal } from "@preact/signals";
import { change } from "../../api/client";
import { directory } from "../../session";
import { plural } from "../../ui/format";
import { Copy, Problem } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import { follow, tried } from "./command_form";
import { commandWords, type Form, jobBody, optionWords } from "./form";
import { fill, type Parameter, type Point, points, sweepLine, unknownNames } from "./grid";
import { newForm, OptionsFields } from "./options_fields";
import { Where } from "./where";

/** Commands that are shown of a grid. */
const SHOWN = 8;

/** A name for a sweep that has none: a sweep is known by its name. */
function freshName(): string {
  return `sweep-${new Date()
    .toISOString()
    .slice(5, 19)
    .replace(/[^0-9]/g, "")}`;
}

export function GridForm() {
  const form = useSignal<Form>({ ...newForm(), name: freshName() });
  const template = useSignal("");
  const parameters = useSignal<Parameter[]>([{ name: "lr", values: "0.1 0.01 0.001" }]);
  const all = useComputed(() => tried(() => points(parameters.value.filter((each) => each.name || each.values))));
  const body = useComputed(() => tried(() => jobBody(form.value)));
  const missing = useComputed(() => unknownNames(template.value, parameters.value));
  const first = useComputed(() => {
    const point = all.value.value?.[0];
    if (!template.value.trim() || !point || body.value.problem) return null;
    return [...optionWords(form.value), ...commandWords(fill(template.value.trim(), point))];
  });
  const change_ = (at: number, part: Partial<Parameter>) => {
    parameters.value = parameters.value.map((each, index) => (index === at ? { ...each, ...part } : each));
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const grid = all.value.value ?? [];
    void attempt(async () => {
      const job = jobBody(form.value);
      const command = template.value.trim();
      const done = await change("/v1/submit", { jobs: grid.map((point) => gridJob(job, command, point)) });
      directory.value = form.value.cwd;
      follow(done.ids);
      return [`sweep ${form.value.name}: ${plural(done.ids.length, "job")}`, ...done.warnings].join("; ");
    });
  };
  const grid = all.value.value ?? [];
  const line = template.value.trim();
  const ready = line !== "" && grid.length > 0 && !body.value.problem && missing.value.length === 0;
  const typed = ready ? sweepLine(line, parameters.value, optionWords(form.value)) : "";
  return (
    <form class="submit" onSubmit={submit}>
      <div class="panel">
        <label class="wide">
          Command, with {"{name}"} for each parameter
          <textarea
            name="template"
            rows={3}
            spellcheck={false}
            placeholder="python train.py --lr {lr}"
            value={template.value}
            onInput={(event) => {
              template.value = event.currentTarget.value;
            }}
          />
        </label>
        <fieldset class="parameters">
          <legend>Parameters</legend>
          {parameters.value.map((each, at) => (
            <div key={at} class="parameter">
              <input
                aria-label={`Name of parameter ${at + 1}`}
                placeholder="name"
                value={each.name}
                onInput={(event) => change_(at, { name: event.currentTarget.value })}
              />
              <input
                aria-label={`Values of parameter ${at + 1}`}
                placeholder="0.1 0.01 or 1..5"
                value={each.values}
                onInput={(event) => change_(at, { values: event.currentTarget.value })}
              />
              <button
                type="button"
                class="quiet"
                aria-label={`Remove parameter ${at + 1}`}
                onClick={() => {
                  parameters.value = parameters.value.filter((_, index) => index !== at);
                }}
              >
                ×
              </button>
            </div>
          ))}
          <button
            type="button"
            onClick={() => {
              parameters.value = [...parameters.value, { name: "", values: "" }];
            }}
          >
            Add a parameter
          </button>
        </fieldset>
        <OptionsFields form={form} />
      </div>
      <div class="panel" aria-live="polite">
        <h2>What will run</h2>
        <Problem words={all.value.problem ?? body.value.problem} />
        {missing.value.length ? <Problem words={`no values for ${missing.value.join(", ")}`} /> : null}
        {line && grid.length ? (
          <>
            <p>{plural(grid.length, "job")}</p>
            <ol class="grid-preview">
              {grid.slice(0, SHOWN).map((point) => (
                <li key={JSON.stringify(point)}>
                  <code>{fill(line, point)}</code>
                </li>
              ))}
            </ol>
            {grid.length > SHOWN ? <p class="faint">and {plural(grid.length - SHOWN, "more", "more")}</p> : null}
          </>
        ) : null}
        {typed ? (
          <p class="command-preview">
            <code>{typed}</code> <Copy text={typed} label="Copy as CLI" />
          </p>
        ) : null}
        {line && grid.length ? <h3>Where the first would run</h3> : null}
        {all.value.problem || body.value.problem ? null : <Where words={first.value} cwd={form.value.cwd} />}
        <button type="submit" class="primary" disabled={!ready}>
          {line && grid.length ? `Submit ${plural(grid.length, "job")}` : "Submit"}
        </button>
      </div>
    </form>
  );
}

/** Return one job of the grid as the API takes it; its parameters are kept as fields. */
function gridJob(job: Record<string, unknown>, template: string, point: Point): Record<string, unknown> {
  const [mode, ...rest] = commandWords(fill(template, point));
  const command = mode === "--" ? rest : rest.slice(1);
  return { ...job, command, shell: mode !== "--", parameters: point };
}
