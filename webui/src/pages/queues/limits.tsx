/** Limits of groups: what the jobs of a project or with a tag may hold at once, and what they hold now. */

import { useSignal } from "@preact/signals";
import { change, get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { mayAdmin } from "../../session";
import { confirm, Dialog } from "../../ui/dialog";
import { FormActions, TextField } from "../../ui/field";
import { printable } from "../../ui/format";
import { useAnswer, useMoves } from "../../ui/hooks";
import { PlainTable, Problem, Text, Typed } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import { tried } from "../submit/command_form";
import { limitBody, limitLine, limitWords } from "./limit_words";

type Limit = Schemas["Limit"];

/** The limits are asked for again at most this often. */
const REFRESH_MS = 2_000;

export function GroupLimits() {
  const turn = useMoves(REFRESH_MS);
  const edited = useSignal<{ group: string; holds: string } | null>(null);
  const changes = useSignal(0);
  const found = useAnswer<Schemas["Limits"]>(`${turn} ${changes.value}`, (signal) => get("/v1/limits", {}, signal));
  const limits = found.value?.limits ?? [];
  const remove = async (group: string) => {
    const words = "Its jobs then start as far as there is room.";
    if (!(await confirm(`Remove the limit of ${printable(group)}?`, words, "Remove", { danger: true }))) return;
    await attempt(async () => {
      const done = await change("/v1/limit", { group, remove: true });
      changes.value++;
      return [`${group} has no limit any more`, ...done.notes].join("; ");
    });
  };
  if (!limits.length && !mayAdmin.value && !found.error) return null;
  return (
    <section class="panel" aria-label="Limits of groups">
      <div class="bar">
        <h2 class="grow">Limits of groups</h2>
        {mayAdmin.value ? (
          <button type="button" onClick={() => (edited.value = { group: "", holds: "" })}>
            New limit
          </button>
        ) : null}
      </div>
      <Problem words={found.error} />
      {limits.length ? (
        <PlainTable heads={["Group", "Holds now, of at most"]} last={mayAdmin.value ? "Change" : undefined}>
          {limits.map((limit) => (
            <tr key={limit.group}>
              <td>
                <Text>{limit.group}</Text>
              </td>
              <td>
                <Text>{limitWords(limit)}</Text>
              </td>
              {mayAdmin.value ? (
                <td>
                  <button
                    type="button"
                    class="quiet"
                    aria-label={`Change the limit of ${printable(limit.group)}`}
                    onClick={() => (edited.value = { group: limit.group, holds: typedLimit(limit) })}
                  >
                    Change
                  </button>
                  <button
                    type="button"
                    class="quiet"
                    aria-label={`Remove the limit of ${printable(limit.group)}`}
                    onClick={() => void remove(limit.group)}
                  >
                    Remove
                  </button>
                </td>
              ) : null}
            </tr>
          ))}
        </PlainTable>
      ) : (
        <p class="faint">No group has a limit. A group is a project, or a tag with a value.</p>
      )}
      {edited.value ? (
        <LimitDialog
          {...edited.value}
          onClose={() => {
            edited.value = null;
            changes.value++;
          }}
        />
      ) : null}
    </section>
  );
}

function typedLimit(limit: Limit): string {
  const all = Object.entries(limit.amounts).map(([name, most]) => `${name}=${most}`);
  return [...all, ...(limit.jobs === null ? [] : [`jobs=${limit.jobs}`])].join(" ");
}

function LimitDialog(props: { group: string; holds: string; onClose: () => void }) {
  const group = useSignal(props.group);
  const holds = useSignal(props.holds);
  const body = tried(() => limitBody(group.value, holds.value));
  const isEmpty = !group.value.trim() || !holds.value.trim();
  const submit = async (event: Event) => {
    event.preventDefault();
    const isSet = await attempt(async () => {
      const done = await change("/v1/limit", body.value ?? {});
      return [`the limit of ${done.group} is ${done.status}`, ...done.notes].join("; ");
    });
    if (isSet) props.onClose();
  };
  return (
    <Dialog title={props.group ? "Change a limit" : "New limit"} onClose={props.onClose}>
      <form onSubmit={submit}>
        <div class="field-grid">
          <TextField
            label="Group"
            hint="project:P or tag:team=a"
            value={group.value}
            onChange={(text) => (group.value = text)}
          />
          <TextField
            label="Holds at most"
            hint="gpu=4 mem=64G jobs=10"
            value={holds.value}
            onChange={(text) => (holds.value = text)}
          />
        </div>
        <Problem words={isEmpty ? null : body.problem} />
        {isEmpty ? null : <Typed command={limitLine(group.value, holds.value)} />}
        <FormActions onCancel={props.onClose} submit="Set the limit" isDisabled={isEmpty || body.problem !== null} />
      </form>
    </Dialog>
  );
}
