/** The dialog that adds devices to a worker. */

import { useSignal } from "@preact/signals";
import { change } from "../../api/client";
import type { Worker } from "../../api/types";
import { Dialog } from "../../ui/dialog";
import { FormActions, held, TextField } from "../../ui/field";
import { printable, quote } from "../../ui/format";
import { Typed } from "../../ui/parts";
import { attempt } from "../../ui/toast";

export function AddDevices(props: { worker: Worker; onClose: () => void }) {
  const { worker } = props;
  const ids = useSignal(nextId(worker));
  const resource = useSignal("gpu");
  const vram = useSignal("");
  const typed = ids.value.split(/[\s,]+/).filter(Boolean);
  const more = [
    ...(resource.value === "gpu" ? [] : ["--resource", resource.value]),
    ...(vram.value.trim() ? ["--vram", vram.value.trim()] : []),
    ...["--worker", worker.name],
  ];
  const command = ["grass device add", ...typed.map(quote), ...more.map(quote)].join(" ");
  const submit = async (event: Event) => {
    event.preventDefault();
    const body = { ids: typed, worker: worker.name, resource: resource.value.trim(), vram: vram.value.trim() || null };
    const isDone = await attempt(async () => {
      const done = await change("/v1/devices/add", body);
      return done.notes.join(" ") || `${resource.value} ${typed.join(", ")} added to ${worker.name}.`;
    });
    if (isDone) props.onClose();
  };
  return (
    <Dialog title={`Add devices to ${printable(worker.name)}`} onClose={props.onClose}>
      <form onSubmit={submit}>
        <p class="faint">
          Jobs that wait may start on them at once. The ids are what <code>nvidia-smi</code> and the programs call them.
        </p>
        <div class="field-grid">
          <TextField label="Ids" name="ids" hint="4 5" {...held(ids)} />
          <TextField label="Resource" name="resource" {...held(resource)} />
          <TextField label="Memory of each" name="vram" hint="24G" {...held(vram)} />
        </div>
        <Typed command={command} />
        <FormActions onCancel={props.onClose} submit="Add" isDisabled={!typed.length || !resource.value.trim()} />
      </form>
    </Dialog>
  );
}

/** Return the number after the largest id of a GPU. */
function nextId(worker: Worker): string {
  const known = worker.capacity.gpu;
  const numbers = typeof known === "object" ? Object.keys(known).map(Number).filter(Number.isInteger) : [];
  return String(Math.max(-1, ...numbers) + 1);
}
