/** The log of a job: any place of it, live at its end, searched as a whole. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { address } from "../../api/client";
import { addShortcuts } from "../../keys";
import type { LogLine } from "../../live/live";
import { CloseAction, Dialog } from "../dialog";
import { bytes, count, plural, printable } from "../format";
import { useWish } from "../hooks";
import { Problem } from "../parts";
import { attempt } from "../toast";
import { LogController, type Marked } from "./controller";
import { type LogChoice, TAIL_LINES } from "./lines";
import { LogPane } from "./pane";
import { SearchBar } from "./search_bar";
import "./log.css";

/** Bytes of one line that `show all` shows, and lines that are copied at once. */
const LINE_BYTES_MAX = 1 << 20;
const COPIED_MAX = 100_000;

export interface JobLogProps {
  job: number;
  /** Whether stdout and stderr are kept apart. */
  split: boolean;
  /** null for the newest attempt, also after a retry. */
  attempt: number | null;
  isCompact?: boolean;
  hasKeys?: boolean;
  /** The lines that the address names, and what is called when others are marked. */
  marked?: Marked | null;
  onMark?: (marked: Marked | null) => void;
}

export function JobLog(props: JobLogProps) {
  const stream = useSignal<LogChoice["stream"]>(null);
  const chosen = props.split ? (stream.value ?? "out") : null;
  const { job, attempt: number } = props;
  const log = useMemo(() => new LogController({ job, attempt: number, stream: chosen }), [job, number, chosen]);
  useEffect(() => log.start(), [log]);
  useWish({ log: { job, attempt: number, stream: chosen, lines: TAIL_LINES } });
  const isSearching = useSignal(false);
  const whole = useSignal<LogLine | null>(null);
  useMarked(log, props);
  useKeys(log, isSearching, props.hasKeys ?? false);
  const act = useMemo(
    () => ({
      mark: (line: number, extend: boolean) => mark(log, line, extend, props.onMark),
      showAll: (line: LogLine) => {
        whole.value = line;
      },
    }),
    [log, whole, props.onMark],
  );
  const state = log.lines.state.value;
  return (
    <div class={props.isCompact ? "log compact" : "log"}>
      <div class="log-bar">
        {props.split ? <StreamChoice stream={chosen} onChoose={(next) => (stream.value = next)} /> : null}
        <span class="faint log-size">{sizeWords(log)}</span>
        <MarkedBar log={log} onMark={props.onMark} />
        <div class="log-tools">
          {isSearching.value ? (
            <SearchBar
              log={log}
              onClose={() => {
                log.search.clear();
                isSearching.value = false;
              }}
            />
          ) : (
            <button
              type="button"
              class="quiet"
              title="Search the whole log (/)"
              onClick={() => {
                isSearching.value = true;
              }}
            >
              Search
            </button>
          )}
          <Toggle
            words="Wrap"
            title="Break long lines (w)"
            on={log.wraps.value}
            onChange={() => {
              log.wraps.value = !log.wraps.value;
            }}
          />
          {state.isFinal ? null : (
            <Toggle
              words="Follow"
              title="Show the end as it grows (f)"
              on={log.isFollowing.value}
              onChange={() => toggleFollow(log)}
            />
          )}
          <a
            class="log-download"
            href={address(`/v1/jobs/${job}/log`, { attempt: state.attempt, stream: chosen, download: 1 })}
            download={`job-${job}${chosen ? `-${chosen}` : ""}.log`}
            title="Download the log, byte for byte"
          >
            Download
          </a>
        </div>
      </div>
      <Problem words={state.error} />
      <div class="log-body">
        {state.isKnown && state.size === 0 ? (
          <p class="log-empty faint">
            {state.attempt === null
              ? state.isFinal
                ? "This job never started, so there is no log."
                : "This job has not started: there is no log yet."
              : state.isFinal
                ? "This job wrote nothing."
                : "Nothing was written yet."}
          </p>
        ) : null}
        <LogPane log={log} act={act} key={`${job} ${number} ${chosen}`} />
        {log.isFollowing.value ? null : (
          <button type="button" class="log-end" onClick={() => log.follow()}>
            ↓ Jump to end{log.newLines.value ? ` (${plural(log.newLines.value, "new line")})` : ""}
          </button>
        )}
      </div>
      {whole.value ? (
        <WholeLine
          line={whole.value}
          log={{ job, attempt: state.attempt, stream: chosen }}
          onClose={() => {
            whole.value = null;
          }}
        />
      ) : null}
    </div>
  );
}

function sizeWords(log: LogController): string {
  const { rows, isCounted, isKnown, size, counted } = log.lines.state.value;
  if (!isKnown) return "loading";
  if (counted !== null) return `counting lines: ${Math.floor(counted * 100)} % of ${bytes(size)}`;
  return isCounted ? `${plural(rows, "line")} · ${bytes(size)}` : `the last lines of ${bytes(size)}`;
}

function toggleFollow(log: LogController): void {
  if (log.isFollowing.value) {
    log.pause();
    log.redraw();
  } else log.follow();
}

/** Mark the lines of the address, and show them once. */
function useMarked(log: LogController, props: JobLogProps): void {
  const text = props.marked ? `${props.marked.first}-${props.marked.last}` : "";
  useEffect(() => {
    const [first, last] = text.split("-").map(Number);
    const isOwn = log.marked.peek() && `${log.marked.peek()?.first}-${log.marked.peek()?.last}` === text;
    log.marked.value = first && last ? { first, last } : null;
    if (first && !isOwn) log.show(first);
    log.redraw();
  }, [text, log]);
}

function mark(log: LogController, line: number, extend: boolean, tell: JobLogProps["onMark"]): void {
  const before = log.marked.value;
  const isSame = before?.first === line && before.last === line;
  const next =
    extend && before
      ? { first: Math.min(before.first, line), last: Math.max(before.last, line) }
      : isSame
        ? null
        : { first: line, last: line };
  log.marked.value = next;
  log.pause();
  log.redraw();
  tell?.(next);
}

function MarkedBar(props: { log: LogController; onMark: JobLogProps["onMark"] }) {
  const { log } = props;
  const marked = log.marked.value;
  if (!marked) return null;
  const lines = marked.last - marked.first + 1;
  return (
    <span class="log-marked">
      {lines === 1 ? `line ${count(marked.first)}` : `lines ${count(marked.first)} to ${count(marked.last)}`}
      <button type="button" class="quiet" onClick={() => void copyLines(log, marked)}>
        Copy {lines === 1 ? "line" : "lines"}
      </button>
      <button
        type="button"
        class="quiet"
        aria-label="Mark no line"
        onClick={() => {
          log.marked.value = null;
          log.redraw();
          props.onMark?.(null);
        }}
      >
        ×
      </button>
    </span>
  );
}

async function copyLines(log: LogController, marked: Marked): Promise<void> {
  const last = Math.min(marked.last, marked.first + COPIED_MAX - 1);
  await attempt(async () => {
    const text = await log.lines.text(marked.first, last);
    await navigator.clipboard.writeText(text);
    const cut = last < marked.last ? `; ${count(COPIED_MAX)} at most at once` : "";
    return `${plural(last - marked.first + 1, "line")} copied${cut}`;
  });
}

function Toggle(props: { words: string; title: string; on: boolean; onChange: () => void }) {
  return (
    <button type="button" class="quiet" title={props.title} aria-pressed={props.on} onClick={props.onChange}>
      {props.words}
    </button>
  );
}

function StreamChoice(props: { stream: LogChoice["stream"]; onChoose: (stream: LogChoice["stream"]) => void }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for a form
    <span role="group" aria-label="Stream">
      {(["out", "err"] as const).map((name) => (
        <button
          key={name}
          type="button"
          class="quiet"
          aria-pressed={props.stream === name}
          onClick={() => props.onChoose(name)}
        >
          {`std${name}`}
        </button>
      ))}
    </span>
  );
}

function WholeLine(props: { line: LogLine; log: LogChoice; onClose: () => void }) {
  const { line, log } = props;
  const text = useSignal<string | null>(null);
  const length = Math.min(line.end - line.begin, LINE_BYTES_MAX);
  const { job, attempt: number, stream } = log;
  useEffect(() => {
    void attempt(async () => {
      const values = { attempt: number, stream, offset: line.begin, limit: length };
      const response = await fetch(address(`/v1/jobs/${job}/log`, values));
      text.value = await response.text();
      return undefined;
    });
  }, [job, number, stream, line, length, text]);
  return (
    <Dialog title={line.n ? `Line ${count(line.n)}` : "The whole line"} onClose={props.onClose} wide>
      {length < line.end - line.begin ? <p class="faint">The first {bytes(length)} of the line.</p> : null}
      <pre class="log-whole">{text.value === null ? "…" : printable(text.value.replace(/\n$/, ""))}</pre>
      <CloseAction onClose={props.onClose} />
    </Dialog>
  );
}

function useKeys(log: LogController, isSearching: { value: boolean }, isWanted: boolean): void {
  useEffect(() => {
    if (!isWanted) return;
    return addShortcuts([
      { keys: "f", words: "Follow the log, or not", act: () => toggleFollow(log) },
      {
        keys: "w",
        words: "Break long lines of the log, or not",
        act: () => {
          log.wraps.value = !log.wraps.value;
        },
      },
      {
        keys: "/",
        words: "Search the log",
        act: () => {
          isSearching.value = true;
          document.getElementById("log-query")?.focus();
        },
      },
      { keys: "n", words: "Next hit in the log", act: () => log.step(1) },
      { keys: "N", words: "Previous hit in the log", act: () => log.step(-1) },
      { keys: "g g", words: "Beginning of the log", act: () => log.toTop() },
      { keys: "G", words: "End of the log", act: () => log.follow() },
    ]);
  }, [log, isSearching, isWanted]);
}
