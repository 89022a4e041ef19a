/** The fields that every way to submit shares: where, how much, and how. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { queues } from "../../live/live";
import { directory, isAtHome, usualDirectory } from "../../session";
import { CheckField, SelectField, TextField } from "../../ui/field";
import { EMPTY, type Form } from "./form";

interface Field {
  name: Exclude<keyof Form, "hold">;
  label: string;
  hint: string;
  wide?: boolean;
}

const NEEDS: readonly Field[] = [
  { name: "gpu", label: "GPU", hint: "0.5, 1, 2.5" },
  { name: "cpu", label: "CPU", hint: "4" },
  { name: "mem", label: "Memory", hint: "16G" },
  { name: "others", label: "Others", hint: "printer=1" },
];

const NAMES: readonly Field[] = [
  { name: "name", label: "Name", hint: "selects the job" },
  { name: "project", label: "Project", hint: "groups jobs" },
];

const DIRECTORY: Field = { name: "cwd", label: "Directory", hint: "/home/me/project", wide: true };

const MORE: readonly Field[] = [
  { name: "priority", label: "Priority", hint: "30; more is sooner" },
  { name: "tries", label: "Tries", hint: "1" },
  { name: "retry_delay", label: "Retry delay", hint: "5s, or 30s..10m" },
  { name: "retry_on", label: "Retry on", hint: "137, timed_out" },
  { name: "no_retry_on", label: "No retry on", hint: "2" },
  { name: "time_limit", label: "Time limit", hint: "2h" },
  { name: "warn", label: "Warn before the limit", hint: "60s, or 60s:TERM" },
  { name: "idle_limit", label: "Idle limit", hint: "30m without output" },
  { name: "tags", label: "Tags", hint: "team=a" },
  { name: "unique", label: "Unique key", hint: "one unfinished job" },
  { name: "at", label: "Start at", hint: "18:00, 2026-12-01T08:00" },
  { name: "delay", label: "Start in", hint: "2h" },
  { name: "after", label: "After success of", hint: "12, 3-7, a name" },
  { name: "after_any", label: "After the end of", hint: "12, 3-7, a name" },
  { name: "after_fail", label: "After a failure of", hint: "12, 3-7, a name" },
  { name: "wrap", label: "Wrap", hint: "a command before the command, as a container", wide: true },
  { name: "output", label: "Output file", hint: "log also here", wide: true },
];

/** Return an empty form: jobs run where this browser was opened, or where its last job ran. */
export function newForm(): Form {
  return { ...EMPTY, cwd: isAtHome.peek() ? directory.peek() : "" };
}

export function OptionsFields(props: { form: Signal<Form>; without?: readonly string[] }) {
  const { form } = props;
  const field = (each: Field) =>
    props.without?.includes(each.name) ? null : (
      <TextField
        key={each.name}
        label={each.label}
        name={each.name}
        hint={each.hint}
        class={each.wide ? "wide" : undefined}
        value={form.value[each.name]}
        onChange={(text) => {
          form.value = { ...form.value, [each.name]: text };
        }}
      />
    );
  // A queue that does not exist yet can be chosen by the address: its jobs wait for it.
  const names = [...new Set([...(queues.value ?? []).map((queue) => queue.name), form.value.queue])].filter(Boolean);
  const isBegun = MORE.some((each) => form.value[each.name]) || form.value.hold || form.value.env !== "";
  const isOpen = useSignal(false);
  // An option that is emptied again must not take its field away from under the fingers.
  useEffect(() => {
    if (isBegun) isOpen.value = true;
  }, [isBegun, isOpen]);
  return (
    <>
      <div class="options">
        {props.without?.includes("queue") ? null : (
          <SelectField
            label="Queue"
            name="queue"
            options={[
              { value: "", words: "default" },
              ...names.filter((name) => name !== "default").map((name) => ({ value: name, words: name })),
            ]}
            value={form.value.queue}
            onChange={(queue) => {
              form.value = { ...form.value, queue };
            }}
          />
        )}
        {field({ ...DIRECTORY, hint: usualDirectory.value || DIRECTORY.hint })}
        {NEEDS.map(field)}
        {NAMES.map(field)}
      </div>
      <details
        open={isOpen.value}
        onToggle={(event) => {
          isOpen.value = event.currentTarget.open;
        }}
      >
        <summary>More options</summary>
        <div class="options">
          {MORE.map(field)}
          <label class="wide">
            Environment, one NAME=value a line
            <textarea
              name="env"
              rows={3}
              spellcheck={false}
              value={form.value.env}
              onInput={(event) => {
                form.value = { ...form.value, env: event.currentTarget.value };
              }}
            />
          </label>
          <CheckField
            name="hold"
            value={form.value.hold}
            onChange={(hold) => {
              form.value = { ...form.value, hold };
            }}
          >
            Hold until released
          </CheckField>
        </div>
      </details>
    </>
  );
}
