/** How a machine is added: over ssh, or as a worker that connects by itself. Both are commands for a terminal. */

import { useSignal } from "@preact/signals";
import { CloseAction, Dialog } from "../../ui/dialog";
import { held, TextField } from "../../ui/field";
import { quote } from "../../ui/format";
import { Typed } from "../../ui/parts";

export function AddMachine(props: { onClose: () => void }) {
  const name = useSignal("");
  const target = useSignal("");
  const labels = useSignal("");
  const words = [name.value.trim() || "NAME", target.value.trim() || "USER@HOST"];
  const marks = labels.value
    .split(/[\s,]+/)
    .filter(Boolean)
    .flatMap((label) => ["--label", label]);
  const command = ["grass machine add", ...[...words, ...marks].map(quote)].join(" ");
  const test = `grass machine test ${quote(words[0]!)}`;
  return (
    <Dialog title="Add a machine" onClose={props.onClose} wide>
      <h3>Over ssh, without installing anything there</h3>
      <p class="faint">
        Grass logs in with your ssh keys, so these commands are typed in a terminal of this machine; a page never uses
        your keys.
      </p>
      <div class="field-grid">
        <TextField label="Name" name="name" hint="lab3" {...held(name)} />
        <TextField label="Login" name="target" hint="me@lab3.example" {...held(target)} />
        <TextField label="Labels" name="labels" hint="a100" {...held(labels)} />
      </div>
      <Typed command={command} />
      <Typed command={test} />
      <h3>As a worker that connects by itself</h3>
      <p class="faint">
        Make a code with the scope worker on the screen <a href="/access">Access</a>, then type this on the other
        machine, which asks for the code:
      </p>
      <Typed command="grass join" />
      <CloseAction onClose={props.onClose} />
    </Dialog>
  );
}
