/** Small parts that every screen uses. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Progress as JobProgress, State } from "../api/types";
import { printable } from "./format";

/** What a mark shows: a state, or that the processes of a running job are stopped. */
export type Mark = State | "suspended";

const MARKS: Record<Mark, string> = {
  suspended: "⏸",
  running: "▶",
  placed: "▷",
  queued: "•",
  waiting: "◦",
  held: "‖",
  failed: "✗",
  cancelled: "–",
  succeeded: "✓",
};

/** The state of a job: a colour, a mark and the word, so that none of them is needed alone. */
export function StateMark(props: { state: Mark; word?: boolean }) {
  return (
    <span class={`state ${props.state}`} title={props.state}>
      <span aria-hidden="true" class="state-mark">
        {MARKS[props.state]}
      </span>
      {props.word === false ? <span class="hidden">{props.state}</span> : props.state}
    </span>
  );
}

/** Return what a mark of a job shows. */
export function markOf(job: { state: State; suspended?: string | null }): Mark {
  return job.state === "running" && job.suspended ? "suspended" : job.state;
}

/** Text of others: its control characters are shown, and its direction stays its own. */
export function Text(props: { children: string | null | undefined; class?: string }) {
  return <bdi class={props.class}>{printable(props.children ?? "")}</bdi>;
}

export function Progress(props: { progress: JobProgress | null | undefined }) {
  const fraction = props.progress?.fraction;
  if (fraction === null || fraction === undefined) return null;
  const percent = Math.round(fraction * 100);
  return (
    <span class="progress">
      <progress max={100} value={percent} aria-label={`${percent} percent`} />
      <span aria-hidden="true">{percent} %</span>
    </span>
  );
}

/** A part that is wider than a phone: it is scrolled by itself, by keys as well. */
export function Wide(props: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for a form
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what is scrolled by keys needs the focus
    <div class="scroll-x" role="group" aria-label={props.label} tabIndex={0}>
      {props.children}
    </div>
  );
}

export function Empty(props: { children: ComponentChildren }) {
  return <div class="empty">{props.children}</div>;
}

/** A table with a head; it scrolls sideways where it is too wide. `last` names a column of buttons, for screen readers. */
export function PlainTable(props: {
  heads: readonly string[];
  last?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    <Wide label={`Table: ${props.heads.join(", ")}`}>
      <table class="plain">
        <thead>
          <tr>
            {props.heads.map((words) => (
              <th key={words}>{words}</th>
            ))}
            {props.last ? (
              <th>
                <span class="hidden">{props.last}</span>
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </Wide>
  );
}

export function Problem(props: { words: string | null }) {
  return props.words ? (
    <p class="problem" role="alert">
      {printable(props.words)}
    </p>
  ) : null;
}

/** A command for a terminal, with a button that copies it. */
export function Typed(props: { command: string }) {
  return (
    <p class="preview">
      <code>{printable(props.command)}</code> <Copy text={props.command} />
    </p>
  );
}

/** How long a button says that it has copied. */
const COPIED_MS = 1500;

/** A button that copies a text, and says so. */
export function Copy(props: { text: string; label?: string }) {
  const said = useSignal<string | null>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(props.text);
      said.value = "Copied";
    } catch {
      // A browser may forbid it, or know no clipboard; the text itself can be marked.
      said.value = "Not copied";
    }
    setTimeout(() => {
      said.value = null;
    }, COPIED_MS);
  };
  return (
    <button type="button" class="quiet copy" title={printable(props.text)} onClick={() => void copy()}>
      <span aria-live="polite">{said.value ?? props.label ?? "Copy"}</span>
    </button>
  );
}
