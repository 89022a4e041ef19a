/** The dialog that makes a code for a person or a worker; the code is shown once. */

import { useSignal } from "@preact/signals";
import { change } from "../../api/client";
import type { Schemas, Scope } from "../../api/types";
import { CloseAction, Dialog } from "../../ui/dialog";
import { CheckField, FormActions, held, SelectField, TextField } from "../../ui/field";
import { clock } from "../../ui/format";
import { Copy } from "../../ui/parts";
import { attempt } from "../../ui/toast";

const SCOPES: readonly { value: Scope; words: string }[] = [
  { value: "read", words: "read: look at everything, change nothing" },
  { value: "submit", words: "submit: submit jobs, and change your own jobs" },
  { value: "admin", words: "admin: everything that this page can do" },
  { value: "worker", words: "worker: offer a machine to this broker" },
];
/** In seconds. */
const LIFETIMES: readonly { value: string; words: string }[] = [
  { value: "600", words: "10 minutes" },
  { value: "3600", words: "1 hour" },
  { value: "86400", words: "1 day" },
  { value: "604800", words: "7 days" },
];

type Made = Schemas["Code"];

export function NewCode(props: { onClose: () => void }) {
  const scope = useSignal<Scope>("submit");
  const name = useSignal("");
  const queues = useSignal("");
  const seconds = useSignal("3600");
  const bare = useSignal(false);
  const made = useSignal<Made | null>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const named = queues.value.split(/[\s,]+/).filter(Boolean);
    const limited = scope.value === "submit" ? { bare: bare.value, ...(named.length ? { queues: named } : {}) } : {};
    const body = { scope: scope.value, name: name.value.trim(), ttl_s: Number(seconds.value), ...limited };
    void attempt(async () => {
      made.value = await change("/v1/tokens/create", body);
      return undefined;
    });
  };
  if (made.value) {
    const command = scope.value === "worker" ? "grass join" : "grass login";
    return (
      <Dialog title="The code, shown once" onClose={props.onClose}>
        <p>
          <code>{command}</code> on the other machine asks for it. It works once, until{" "}
          {clock(made.value.expires ?? "")}.
        </p>
        <p class="code-shown">
          <code>{made.value.code}</code> <Copy text={made.value.code} />
        </p>
        <CloseAction words="Done" onClose={props.onClose} />
      </Dialog>
    );
  }
  return (
    <Dialog title="New code" onClose={props.onClose}>
      <form class="fields" onSubmit={submit}>
        <SelectField
          label="Scope"
          options={SCOPES}
          value={scope.value}
          onChange={(chosen) => {
            scope.value = chosen as Scope;
          }}
        />
        <TextField label="Name of the person or machine" {...held(name)} />
        {scope.value === "submit" ? (
          <>
            <CheckField {...held(bare)}>
              May run any program. Without this, only queues with a command of their own take its jobs.
            </CheckField>
            <TextField label="Only these queues (empty: all)" {...held(queues)} />
          </>
        ) : null}
        <SelectField label="Works for" options={LIFETIMES} {...held(seconds)} />
        <FormActions onCancel={props.onClose} submit="Make the code" />
      </form>
    </Dialog>
  );
}
