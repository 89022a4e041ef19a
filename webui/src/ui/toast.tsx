/** Short messages about what was done or refused. A screen reader hears them too. */

import { signal } from "@preact/signals";
import { words } from "../api/client";
import { printable } from "./format";

/** How long a message stays; one about a refusal stays longer. */
const SHOWN_MS = 6_000;
const REFUSED_MS = 15_000;
/** The most messages at once; the oldest leave. */
const TOASTS_MAX = 4;

interface Toast {
  id: number;
  text: string;
  refused: boolean;
}

const toasts = signal<Toast[]>([]);
let lastId = 0;

export function say(text: string, refused = false): void {
  const id = ++lastId;
  toasts.value = [...toasts.value, { id, text: printable(text), refused }].slice(-TOASTS_MAX);
  setTimeout(() => drop(id), refused ? REFUSED_MS : SHOWN_MS);
}

/** Do something, and say what came of it; return whether it was done. */
export async function attempt(act: () => Promise<string | undefined>): Promise<boolean> {
  try {
    const done = await act();
    if (done) say(done);
    return true;
  } catch (error) {
    say(words(error), true);
    return false;
  }
}

function drop(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Dialogs that are open. Behind an open dialog a message is dim, cannot be closed, and no screen reader says it. */
export const dialogs = signal(0);

/** The refusals that a dialog shows itself: those since it was opened. */
export function Refusals(props: { since: number }) {
  return (
    <>
      {toasts.value
        .filter((toast) => toast.refused && toast.id > props.since)
        .slice(-1)
        .map((toast) => (
          <p key={toast.id} class="problem" role="alert">
            {toast.text}
          </p>
        ))}
    </>
  );
}

/** Return the number of the last message. */
export function lastToast(): number {
  return lastId;
}

export function Toasts() {
  const shown = toasts.value.filter((toast) => !toast.refused || dialogs.value === 0);
  return (
    <div class="toasts" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} class={toast.refused ? "toast refused" : "toast"} role={toast.refused ? "alert" : "status"}>
          <span>{toast.text}</span>
          <button type="button" class="quiet" aria-label="Close this message" onClick={() => drop(toast.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
