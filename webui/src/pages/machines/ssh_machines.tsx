/** What is known of a machine over ssh, and the commands for it. */

import type { Schemas } from "../../api/types";
import { mayAdmin } from "../../session";
import { printable, quote } from "../../ui/format";
import { Copy } from "../../ui/parts";

export type SshMachine = Schemas["MachineRow"];

export function SshNote(props: { machine: SshMachine }) {
  const { machine } = props;
  return (
    <div class="ssh">
      <span class="label">ssh</span>
      <code>{printable(machine.host)}</code>
      <span class={machine.state === "connected" ? "faint" : "ssh-state"}>{machine.state}</span>
      {machine.why ? <span class="ssh-why">{printable(machine.why)}</span> : null}
      {mayAdmin.value
        ? ["test", "remove"].map((verb) => (
            <Copy
              key={verb}
              text={`grass machine ${verb} ${quote(machine.name)}`}
              label={`Copy “grass machine ${verb}”`}
            />
          ))
        : null}
    </div>
  );
}
