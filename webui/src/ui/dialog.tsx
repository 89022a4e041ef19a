/** Dialogs: the browser's own <dialog>, which keeps the focus inside and closes with Escape. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { dialogs, lastToast, Refusals } from "./toast";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    dialogs.value++;
    return () => {
      dialogs.value--;
      dialog?.close();
    };
  }, []);
  const since = useRef(lastToast());
  /** Where the mouse was pressed: text that is marked from inside to outside closes nothing. */
  const pressed = useRef<EventTarget | null>(null);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog, as the browser does by itself
    <dialog
      ref={ref}
      class={props.wide ? "dialog wide" : "dialog"}
      aria-label={props.title}
      onCancel={(event) => {
        // The browser would tell of the end only later, when the next key may have opened another dialog.
        event.preventDefault();
        props.onClose();
      }}
      onClose={() => {
        if (ref.current) props.onClose();
      }}
      onPointerDown={(event) => {
        pressed.current = event.target;
      }}
      onClick={(event) => {
        if (event.target === ref.current && pressed.current === ref.current) props.onClose();
      }}
    >
      <div class="dialog-body">
        <h2>{props.title}</h2>
        <Refusals since={since.current} />
        {props.children}
      </div>
    </dialog>
  );
}

/** The last line of a dialog that is only read. */
export function CloseAction(props: { words?: string; onClose: () => void }) {
  return (
    <div class="dialog-actions">
      <button type="button" class="primary" onClick={props.onClose}>
        {props.words ?? "Close"}
      </button>
    </div>
  );
}

interface Question {
  title: string;
  text: ComponentChildren;
  yes: string;
  danger: boolean;
  answer: (yes: boolean) => void;
}

const question = signal<Question | null>(null);

/** Ask before something that cannot be undone; the answer is false for Escape. */
export function confirm(
  title: string,
  text: ComponentChildren,
  yes: string,
  options: { danger?: boolean } = {},
): Promise<boolean> {
  question.value?.answer(false);
  return new Promise((resolve) => {
    question.value = { title, text, yes, danger: options.danger ?? false, answer: resolve };
  });
}

function settle(yes: boolean): void {
  const asked = question.value;
  question.value = null;
  asked?.answer(yes);
}

/** The place where questions appear. */
export function Questions() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title={asked.title} onClose={() => settle(false)}>
      <div>{asked.text}</div>
      <div class="dialog-actions">
        <button type="button" onClick={() => settle(false)}>
          Cancel
        </button>
        <button type="button" autofocus class={asked.danger ? "danger" : "primary"} onClick={() => settle(true)}>
          {asked.yes}
        </button>
      </div>
    </Dialog>
  );
}
