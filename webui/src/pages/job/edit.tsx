/** Edits a job that has not started: only what was changed is sent. */

import { useSignal } from "@preact/signals";
import { change, words } from "../../api/client";
import { Dialog } from "../../ui/dialog";
import { FormActions } from "../../ui/field";
import { Problem } from "../../ui/parts";
import { say } from "../../ui/toast";
import type { EditValue, JobDetails } from "./details";
import { read, write } from "./values";

/** What is edited mostly comes first, and is always shown. */
const FIRST = ["command", "name", "queue", "priority", "require", "env", "project"];

export function EditDialog(props: { id: number; editable: NonNullable<JobDetails["editable"]>; onClose: () => void }) {
  const { version } = props.editable;
  const values = props.editable.values as Record<string, EditValue>;
  const typed = useSignal<Record<string, string | boolean>>({});
  const failed = useSignal<string | null>(null);
  const names = [...FIRST.filter((name) => name in values), ...Object.keys(values).filter((n) => !FIRST.includes(n))];
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      const set: Record<string, EditValue> = {};
      for (const [name, text] of Object.entries(typed.value)) {
        const value = read(name, text, values[name] ?? null);
        if (JSON.stringify(value) !== JSON.stringify(values[name])) set[name] = value;
      }
      if (Object.keys(set).length) {
        await change("/v1/jobs/edit", { selectors: [String(props.id)], set, version });
        say(`job ${props.id} is changed`);
      }
      props.onClose();
    } catch (error) {
      failed.value = words(error);
    }
  };
  const field = (name: string) => (
    <Field
      key={name}
      name={name}
      value={values[name] ?? null}
      onType={(text) => {
        typed.value = { ...typed.value, [name]: text };
      }}
    />
  );
  return (
    <Dialog title={`Edit job ${props.id}`} onClose={props.onClose} wide>
      <form class="edit" onSubmit={save}>
        {names.filter((name) => FIRST.includes(name)).map(field)}
        <details>
          <summary>More options</summary>
          <div class="edit">{names.filter((name) => !FIRST.includes(name)).map(field)}</div>
        </details>
        <Problem words={failed.value} />
        <FormActions onCancel={props.onClose} submit="Save" />
      </form>
    </Dialog>
  );
}

const HINTS: Record<string, string> = {
  command: "one word a line",
  require: "amounts such as gpu=0.5 cpu=4",
  env: "NAME=VALUE, one a line",
};

function Field(props: { name: string; value: EditValue; onType: (text: string | boolean) => void }) {
  const { name, value } = props;
  const label = name.replaceAll("-", " ");
  if (typeof value === "boolean")
    return (
      <label class="check">
        <input type="checkbox" defaultChecked={value} onChange={(event) => props.onType(event.currentTarget.checked)} />{" "}
        {label}
      </label>
    );
  const text = write(name, value);
  const isLong = Array.isArray(value) || name === "env";
  const id = `edit-${name}`;
  return (
    <div class={isLong ? "field long" : "field"}>
      <label htmlFor={id}>
        {label} {HINTS[name] ? <span class="faint">{HINTS[name]}</span> : null}
      </label>
      {isLong ? (
        <textarea
          id={id}
          rows={Math.min(8, Math.max(2, text.split("\n").length))}
          spellcheck={false}
          defaultValue={text}
          onInput={(event) => props.onType(event.currentTarget.value)}
        />
      ) : (
        <input
          id={id}
          spellcheck={false}
          autocomplete="off"
          placeholder={value === null ? "default" : undefined}
          defaultValue={text}
          onInput={(event) => props.onType(event.currentTarget.value)}
        />
      )}
    </div>
  );
}
