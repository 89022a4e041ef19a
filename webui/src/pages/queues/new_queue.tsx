/** The dialog that makes a queue; it shows the command line that does the same. */

import { useSignal } from "@preact/signals";
import { change, words } from "../../api/client";
import { workers } from "../../live/live";
import { Dialog } from "../../ui/dialog";
import { FormActions, SelectField, TextField } from "../../ui/field";
import { Problem, Typed } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import { commandOf, type Definition, EMPTY, queueWords } from "./definition";

export function NewQueue(props: { onClose: () => void }) {
  const known = workers.value ?? [];
  const form = useSignal<Definition>({ ...EMPTY, worker: known[0]?.name ?? "" });
  const set = (changes: Partial<Definition>) => {
    form.value = { ...form.value, ...changes };
  };
  const { preview, problem } = previewOf(form.value);
  const submit = async (event: Event) => {
    event.preventDefault();
    const isMade = await attempt(async () => {
      const made = await change("/v1/create-queue", { words: queueWords(form.value) });
      return [`Queue ${made.name}: ${made.status}.`, ...made.notes].join(" ");
    });
    if (isMade) props.onClose();
  };
  const field = (name: keyof Definition, label: string, hint: string, wide = false) => (
    <TextField
      label={label}
      name={name}
      hint={hint}
      class={wide ? "field-wide" : undefined}
      value={form.value[name]}
      onChange={(text) => set({ [name]: text })}
    />
  );
  const places = [
    ...known.map((worker) => ({ value: worker.name, words: worker.name })),
    { value: "", words: "all workers, also later ones" },
  ];
  return (
    <Dialog title="New queue" onClose={props.onClose} wide>
      <form onSubmit={submit}>
        <div class="field-grid">
          {field("name", "Name", "exp1")}
          <SelectField label="On" options={places} value={form.value.worker} onChange={(worker) => set({ worker })} />
          {form.value.worker ? null : field("label", "Only workers with these labels", "a100")}
          {field("gpu", "Limit of GPUs", "2 or [2,3]")}
          {field("cpu", "Limit of CPUs", "16")}
          {field("mem", "Limit of memory", "64G")}
          {field("others", "Other limits", "printer=1")}
          {field("command", "First words of every command", "python train.py", true)}
          {field("cwd", "Directory of its jobs", "/data/project")}
          {field("wrap", "Wrapper before every command", "nice -n 10")}
        </div>
        <p class="faint">
          A queue with the same name there is replaced; its jobs stay. Limits hold for all its jobs together.
        </p>
        <Problem words={problem} />
        <Typed command={preview} />
        <FormActions
          onCancel={props.onClose}
          submit="Make the queue"
          isDisabled={!form.value.name.trim() || problem !== null}
        />
      </form>
    </Dialog>
  );
}

function previewOf(definition: Definition): { preview: string; problem: string | null } {
  try {
    const named = { ...definition, name: definition.name.trim() || "NAME" };
    return { preview: commandOf(named), problem: null };
  } catch (error) {
    return { preview: "", problem: words(error) };
  }
}
