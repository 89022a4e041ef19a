/** The sheet of shortcuts, made from the table of shortcuts. */

import { signal } from "@preact/signals";
import { allShortcuts } from "../keys";
import { Dialog } from "../ui/dialog";

const open = signal(false);

export function toggleHelp(): void {
  open.value = !open.value;
}

export function Help() {
  if (!open.value) return null;
  const close = () => {
    open.value = false;
  };
  return (
    <Dialog title="Keyboard" onClose={close}>
      <dl class="keys">
        {allShortcuts().map((each) => (
          <div key={each.keys}>
            <dt>
              {each.keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{each.words}</dd>
          </div>
        ))}
      </dl>
      <div class="dialog-actions">
        <button type="button" class="primary" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
