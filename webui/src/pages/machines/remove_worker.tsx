/** The dialog that removes a worker. */

import { useSignal } from "@preact/signals";
import { change } from "../../api/client";
import type { Worker } from "../../api/types";
import { CloseAction, Dialog } from "../../ui/dialog";
import { CheckField, FormActions, held } from "../../ui/field";
import { plural, printable } from "../../ui/format";
import { Typed } from "../../ui/parts";
import { attempt } from "../../ui/toast";

export function RemoveWorker(props: { worker: Worker; isSsh: boolean; onClose: () => void }) {
  const { worker, isSsh } = props;
  const lost = useSignal(false);
  const command = `grass machine remove ${worker.name}`;
  const submit = async (event: Event) => {
    event.preventDefault();
    const isDone = await attempt(async () => {
      const done = await change("/v1/remove-worker", { worker: worker.name, lost: lost.value });
      return [`Worker ${worker.name} is removed.`, ...done.notes].join(" ");
    });
    if (isDone) props.onClose();
  };
  return (
    <Dialog title={`Remove ${printable(worker.name)}?`} onClose={props.onClose}>
      {isSsh ? (
        <>
          <p>It is a machine over ssh. Only a terminal of this machine uses your ssh keys:</p>
          <Typed command={command} />
          <CloseAction onClose={props.onClose} />
        </>
      ) : (
        <form onSubmit={submit}>
          <p>
            Its token is revoked, so it cannot connect again without a new code. A worker that is online, or that has
            jobs, is not removed: drain it first.
          </p>
          {worker.jobs ? (
            <CheckField {...held(lost)}>Give its {plural(worker.jobs, "job")} up as lost</CheckField>
          ) : null}
          <FormActions onCancel={props.onClose} submit="Remove" isDanger />
        </form>
      )}
    </Dialog>
  );
}
