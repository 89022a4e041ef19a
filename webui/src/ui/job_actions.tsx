/** What can be done with jobs: each action is counted by the daemon before it is confirmed. */

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, change, words } from "../api/client";
import { NEUTRAL_PRIORITY, type Schemas, STATES } from "../api/types";
import { mayAdmin } from "../session";
import { Dialog } from "./dialog";
import { count, plural, printable } from "./format";
import { Problem, StateMark } from "./parts";
import { attempt } from "./toast";

type Verb = Schemas["ActBody"]["action"];
/** What a person chooses: a verb of the daemon, or a clean that keeps the logs. */
export type Action = Verb | "cleanKeepingLogs";

export interface ActionWords {
  /** What the daemon is asked for. */
  body: { action: Verb; keep_logs?: boolean };
  title: string;
  verb: string;
  done: string;
  what: string;
  isDanger: boolean;
}

export const ACTIONS: Record<Action, ActionWords> = {
  kill: {
    body: { action: "kill" },
    title: "Kill",
    verb: "kill",
    done: "killed",
    what: "Running jobs are ended, waiting jobs are cancelled.",
    isDanger: true,
  },
  rerun: {
    body: { action: "rerun" },
    title: "Rerun",
    verb: "run again",
    done: "submitted again",
    what: "Each is submitted again as a new job, which runs as soon as there is room.",
    isDanger: false,
  },
  hold: {
    body: { action: "hold" },
    title: "Hold",
    verb: "hold",
    done: "held",
    what: "Jobs that wait do not start until they are released.",
    isDanger: false,
  },
  release: {
    body: { action: "release" },
    title: "Release",
    verb: "release",
    done: "released",
    what: "Held jobs may start again.",
    isDanger: false,
  },
  priority: {
    body: { action: "priority" },
    title: "Priority",
    verb: "change",
    done: "changed",
    what: "Jobs with a higher priority start first.",
    isDanger: false,
  },
  clean: {
    body: { action: "clean" },
    title: "Clean",
    verb: "remove",
    done: "removed",
    what: "Jobs that have ended are removed, with their logs and files. This cannot be undone.",
    isDanger: true,
  },
  cleanKeepingLogs: {
    body: { action: "clean", keep_logs: true },
    title: "Clean, keep logs",
    verb: "remove",
    done: "removed",
    what: "Jobs that have ended leave the lists. Their logs are kept, in the folder `kept` of the home.",
    isDanger: false,
  },
};

/** Which jobs an action is about: some ids, or a query without some ids. */
export interface ChosenJobs {
  ids?: readonly number[];
  q?: string;
  except?: readonly number[];
  /** Only jobs up to this id. */
  upto?: number;
  /** In words, such as `job 42`. */
  words: string;
}

/** What a preview of an action says: how many jobs are meant, and how many would change. */
type Preview = Required<Pick<Schemas["Act"], "count" | "states" | "skipped" | "fingerprint" | "upto">> &
  Pick<Schemas["Act"], "notes"> & { matched: number };

interface Question {
  action: Action;
  chosen: ChosenJobs;
  answer: (done: boolean) => void;
}

const question = signal<Question | null>(null);

/** Return the choice of one job. */
export function oneJob(id: number): ChosenJobs {
  return { ids: [id], words: `job ${id}` };
}

/** Ask with the daemon's own numbers, then act; return whether it was done. */
export function actOnJobs(action: Action, chosen: ChosenJobs): Promise<boolean> {
  question.value?.answer(false);
  return new Promise((resolve) => {
    question.value = { action, chosen, answer: resolve };
  });
}

/** The place where such questions appear. */
export function JobQuestions() {
  const asked = question.value;
  if (!asked) return null;
  const close = (done: boolean) => {
    question.value = null;
    asked.answer(done);
  };
  return <ActionDialog key={JSON.stringify(asked)} {...asked} onClose={close} />;
}

function ActionDialog(props: Question & { onClose: (done: boolean) => void }) {
  const { action, chosen } = props;
  const known = ACTIONS[action];
  const preview = useSignal<Preview | null>(null);
  const failed = useSignal<string | null>(null);
  const outdated = useSignal<string | null>(null);
  const priority = useSignal(NEUTRAL_PRIORITY);
  /** Grows when the jobs must be counted again. */
  const turn = useSignal(0);
  const busy = useSignal(false);
  const { words: _, ...which } = chosen;
  const body = JSON.stringify({ ...known.body, ...which, ...(action === "priority" ? { priority: 0 } : {}) });
  useEffect(() => {
    let isHere = true;
    change("/v1/jobs/act", { ...JSON.parse(body), preview: true })
      .then((answer) => {
        // A preview has all of these.
        if (isHere) preview.value = answer as Preview;
      })
      .catch((error: unknown) => {
        if (isHere) failed.value = words(error);
      });
    return () => {
      isHere = false;
    };
  }, [body, preview, failed, turn.value]);
  const found = preview.value;
  const run = async () => {
    busy.value = true;
    outdated.value = null;
    const level = action === "priority" ? { priority: priority.value } : {};
    const isDone = await attempt(async () => {
      try {
        const done = await change("/v1/jobs/act", { ...JSON.parse(body), ...shown(found), ...level });
        const kept = done.kept ? [`the logs are in ${printable(done.kept)}`] : [];
        return [`${plural(done.count ?? 0, "job")} ${known.done}`, ...kept, ...(done.notes ?? [])].join("; ");
      } catch (error) {
        if (!isConflict(error)) throw error;
        outdated.value = words(error);
        return undefined;
      }
    });
    busy.value = false;
    if (outdated.value) {
      preview.value = null;
      turn.value++;
    } else props.onClose(isDone);
  };
  const act = useRef<HTMLButtonElement>(null);
  // The button is disabled until the jobs are counted; then Enter is the answer, but not to new numbers.
  useEffect(() => {
    if (found?.count && action !== "priority" && turn.peek() === 0) act.current?.focus();
  }, [found, action, turn]);
  return (
    <Dialog title={titled(known, chosen.words)} onClose={() => props.onClose(false)}>
      <p>{known.what}</p>
      {action === "priority" ? (
        <label>
          New priority{" "}
          <input
            type="number"
            value={priority.value}
            onInput={(event) => {
              priority.value = event.currentTarget.valueAsNumber;
            }}
          />
        </label>
      ) : null}
      <Problem words={failed.value ?? outdated.value} />
      <PreviewCounts preview={found} verb={known.verb} isLoading={!failed.value} />
      <div class="dialog-actions">
        <button type="button" onClick={() => props.onClose(false)}>
          Cancel
        </button>
        <button
          ref={act}
          type="button"
          class={known.isDanger ? "danger" : "primary"}
          disabled={!found || found.count === 0 || busy.value || !Number.isFinite(priority.value)}
          onClick={() => void run()}
        >
          {found ? titled(known, plural(found.count, "job")) : known.title}
        </button>
      </div>
    </Dialog>
  );
}

/** Return an action with its jobs in words, such as "Clean 3 jobs, keep logs". */
function titled(known: ActionWords, jobs: string): string {
  return known.title.replace(/^\w+/, (verb) => `${verb} ${jobs}`);
}

/** Return what holds an action to the jobs that were shown: the daemon refuses it for any others. */
function shown(preview: Preview | null): { upto?: number; fingerprint?: string } {
  return preview ? { upto: preview.upto, fingerprint: preview.fingerprint } : {};
}

/** Tell whether the daemon refused because other jobs are meant now; an answer that took long begins with status 200. */
function isConflict(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 409 || error.status === 200);
}

function PreviewCounts(props: { preview: Preview | null; verb: string; isLoading: boolean }) {
  const { preview } = props;
  if (!preview) return props.isLoading ? <p class="faint">Counting…</p> : null;
  const states = STATES.filter((state) => preview.states?.[state]);
  const skipped = STATES.filter((state) => preview.skipped?.states[state]);
  const foreign = mayAdmin.value ? 0 : preview.matched - preview.count - preview.skipped.count;
  return (
    <div class="act-counts">
      <p>
        {preview.count === 0
          ? `There is no job to ${props.verb}.`
          : `This would ${props.verb} ${plural(preview.count, "job")}:`}
      </p>
      <ul>
        {states.map((state) => (
          <li key={state}>
            <StateMark state={state} /> {count(preview.states?.[state] ?? 0)}
          </li>
        ))}
      </ul>
      {preview.skipped?.count ? (
        <p class="faint">
          Left as they are:{" "}
          {skipped.map((state) => `${count(preview.skipped?.states[state] ?? 0)} ${state}`).join(", ") ||
            plural(preview.skipped.count, "job")}
        </p>
      ) : null}
      {foreign > 0 ? (
        <p class="faint">Not yours, and left as they are: {plural(foreign, "job")} submitted by others</p>
      ) : null}
      {(preview.notes ?? []).map((note) => (
        <p key={note} class="faint">
          {printable(note)}
        </p>
      ))}
    </div>
  );
}
