/** Fields of forms: a word over the input, and the value in a signal. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { printable } from "./format";

/** The part of an input that the screen gives: what it holds, and who hears of a change. */
interface Held<T> {
  value: T;
  onChange: (value: T) => void;
}

/** Return a signal as the value of a field. */
export function held<T>(signal: Signal<T>): Held<T> {
  return {
    value: signal.value,
    onChange: (value) => {
      signal.value = value;
    },
  };
}

/** One line of text. */
export function TextField(
  props: Held<string> & { label: string; name?: string; hint?: string; class?: string | undefined },
) {
  return (
    <label class={props.class}>
      {props.label}
      <input
        name={props.name}
        value={props.value}
        placeholder={printable(props.hint ?? "")}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => props.onChange(event.currentTarget.value)}
      />
    </label>
  );
}

/** A choice of one of some values. */
export function SelectField(
  props: Held<string> & { label: string; name?: string; options: readonly { value: string; words: string }[] },
) {
  return (
    <label>
      {props.label}
      <select name={props.name} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map((each) => (
          <option key={each.value} value={each.value}>
            {printable(each.words)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A box to check, before its words. */
export function CheckField(props: Held<boolean> & { name?: string; children: ComponentChildren }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        name={props.name}
        checked={props.value}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />{" "}
      {props.children}
    </label>
  );
}

/** The last line of a dialog with a form: leave it, or send it. */
export function FormActions(props: { onCancel: () => void; submit: string; isDanger?: boolean; isDisabled?: boolean }) {
  return (
    <div class="dialog-actions">
      <button type="button" onClick={props.onCancel}>
        Cancel
      </button>
      <button type="submit" class={props.isDanger ? "danger" : "primary"} disabled={props.isDisabled}>
        {props.submit}
      </button>
    </div>
  );
}
