/** The search field of a log. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count } from "../format";
import type { LogController } from "./controller";
import type { SearchState } from "./search";

/** The search begins this long after the last key. */
const TYPED_MS = 250;

export function SearchBar(props: { log: LogController; onClose: () => void }) {
  const { log } = props;
  const typed = useSignal("");
  const isRegex = useSignal(false);
  const keepsCase = useSignal(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    return () => clearTimeout(timer.current);
  }, []);
  const run = () => {
    clearTimeout(timer.current);
    log.find({ q: typed.value, isRegex: isRegex.value, ignoresCase: !keepsCase.value });
  };
  const soon = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(run, TYPED_MS);
  };
  const state = log.search.state.value;
  return (
    <search class="log-search">
      <input
        ref={input}
        id="log-query"
        type="search"
        placeholder="Search the whole log"
        aria-label="Search the log"
        autocomplete="off"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          soon();
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            if (state.asked?.q === typed.value) log.step(event.shiftKey ? -1 : 1);
            else run();
          } else if (event.key === "Escape") props.onClose();
          else return;
          event.preventDefault();
        }}
      />
      <button
        type="button"
        class="quiet"
        aria-pressed={keepsCase.value}
        title="Large and small letters differ"
        onClick={() => {
          keepsCase.value = !keepsCase.value;
          run();
        }}
      >
        Aa
      </button>
      <button
        type="button"
        class="quiet mono"
        aria-pressed={isRegex.value}
        title="A regular expression of Python"
        onClick={() => {
          isRegex.value = !isRegex.value;
          run();
        }}
      >
        .*
      </button>
      <span class={state.error ? "log-found error" : "log-found"} role="status">
        {foundWords(state)}
      </span>
      {state.isRunning ? (
        <button type="button" class="quiet" onClick={() => log.search.stop()}>
          Stop
        </button>
      ) : null}
      <button type="button" class="quiet" aria-label="Previous hit" onClick={() => log.step(-1)}>
        ↑
      </button>
      <button type="button" class="quiet" aria-label="Next hit" onClick={() => log.step(1)}>
        ↓
      </button>
      <button type="button" class="quiet" aria-label="End the search" onClick={props.onClose}>
        ×
      </button>
    </search>
  );
}

function foundWords(state: SearchState): string {
  if (!state.asked) return "";
  if (state.error) return state.error;
  // A search that runs or was stopped has not seen the whole log.
  const more = state.isWhole ? "" : ` (${Math.floor(state.searched * 100)} %)`;
  if (!state.total) return state.isRunning ? `searching${more}` : `not found${more}`;
  const at = state.line === null ? -1 : state.hits.indexOf(state.line);
  return `${at < 0 ? "a hit" : count(state.skipped + at + 1)} of ${count(state.total)}${more}`;
}
