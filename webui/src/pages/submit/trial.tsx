/** A dry run: what would happen if the form were submitted now. Nothing is queued. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { newKey, post } from "../../api/client";
import type { Schemas } from "../../api/types";
import { plural, printable, quote } from "../../ui/format";
import { type Loaded, useAnswer } from "../../ui/hooks";
import { Problem, StateMark, Text } from "../../ui/parts";

/** The daemon is asked when nothing was typed for this long, unless the request is larger than this. */
const PAUSE_MS = 350;
const AUTO_CHARS_MAX = 50_000;

export type Tried = Schemas["Tried"];

export interface Trial extends Loaded<Tried> {
  /** Ask now. */
  ask: () => void;
  /** Whether the answer is about what is typed now. */
  isCurrent: boolean;
}

/** Ask what a request would do: by a button, and with `isLive` while people type. */
export function useTrial(body: Record<string, unknown> | null, isLive: boolean): Trial {
  const text = body ? JSON.stringify(body) : null;
  /** What was asked, after the number of the question. */
  const asked = useSignal<string | null>(null);
  const turn = useSignal(0);
  const ask = () => {
    turn.value++;
    asked.value = text === null ? null : `${turn.value} ${text}`;
  };
  useEffect(() => {
    if (!isLive || text === null || text.length > AUTO_CHARS_MAX) return;
    const timer = setTimeout(ask, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, isLive]);
  const found = useAnswer<Tried>(asked.value, () => {
    const sent = (asked.value ?? "").replace(/^\d+ /, "");
    return post("/v1/dry-run", { ...(JSON.parse(sent) as object), key: newKey() });
  });
  const isCurrent = text !== null && asked.value?.replace(/^\d+ /, "") === text && !found.loading;
  return { ...found, ask, isCurrent };
}

/** The button, and what the daemon answered. */
export function TrialView(props: { trial: Trial; isDisabled: boolean }) {
  const { trial } = props;
  return (
    <div class="trial">
      <button type="button" disabled={props.isDisabled} onClick={trial.ask}>
        Try it
      </button>{" "}
      <span class="faint">{props.isDisabled ? "" : "A dry run: nothing is queued."}</span>
      {trial.isCurrent ? (
        <>
          <Problem words={trial.error} />
          {trial.value && !trial.error ? <Answer tried={trial.value} /> : null}
        </>
      ) : null}
    </div>
  );
}

function Answer(props: { tried: Tried }) {
  const { tried } = props;
  const rest = tried.count - tried.commands.length;
  if (tried.existing !== null)
    return (
      <p class="note">
        <a href={`/jobs/${tried.existing}`}>Job {tried.existing}</a> with this unique key is not finished: nothing would
        be queued.
      </p>
    );
  return (
    <div class="tried">
      <p>
        {plural(tried.count, "job")} would be <StateMark state={tried.state} /> in queue <Text>{tried.queue}</Text>:
      </p>
      <ol class="grid-preview">
        {tried.commands.map((words, at) => (
          <li key={at}>
            <code>{printable(tried.shell ? (words[0] ?? "") : words.map(quote).join(" "))}</code>
          </li>
        ))}
      </ol>
      {rest > 0 ? <p class="faint">and {plural(rest, "more", "more")}</p> : null}
      <p>
        Each asks for <Text>{tried.request}</Text>.{" "}
        {tried.workers.length ? (
          <>
            It could start now on <Text>{tried.workers.join(", ")}</Text>.
          </>
        ) : (
          <>
            It would not start now: <Text>{tried.reason}</Text>.
          </>
        )}
      </p>
      {tried.warnings.map((words) => (
        <p key={words} class="note">
          <Text>{words}</Text>
        </p>
      ))}
    </div>
  );
}
