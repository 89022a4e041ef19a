/** Everything that the daemon tells of one job, and what changes of it. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../../api/client";
import type { Job, Schemas } from "../../api/types";
import { onJobs } from "../../live/live";
import { type Loaded, useAnswer, useMoves, useWish } from "../../ui/hooks";

/** How often the reasons and the forecast are asked for again while jobs change. */
const AGAIN_MS = 2_000;

export type JobDetails = Schemas["OneJob"];
export type Attempt = Schemas["Attempt"];
export type Interval = Schemas["Interval"];
/** The value of an option: whatever the table of options has. */
export type EditValue = string | number | boolean | null | unknown[] | Record<string, unknown>;

/** Return one job: the document as it changes, and everything else as often as jobs move. */
export function useJob(id: number): { job: Job | null; isGone: boolean; details: Loaded<JobDetails> } {
  const live = useSignal<Job | null>(null);
  const isGone = useSignal(false);
  const turn = useMoves(AGAIN_MS);
  useWish({ jobs: [id], look: true });
  useEffect(
    () =>
      onJobs((changed) => {
        const news = changed.get(id);
        if (news) live.value = news;
        if (news === null) isGone.value = true;
      }),
    [id, live, isGone],
  );
  const state = live.value ? `${live.value.state} ${live.value.attempt}` : "";
  const details = useAnswer<JobDetails>(isGone.value ? null : `${id} ${turn} ${state}`, (signal) =>
    get(`/v1/jobs/${id}`, {}, signal),
  );
  const last = useRef<Job | null>(null);
  last.current = newer(live.value, details.value?.job ?? null);
  return { job: last.current, isGone: isGone.value, details };
}

/** Return the document that knows more: the live one, with what only the other has. */
function newer(live: Job | null, asked: Job | null): Job | null {
  return live && asked ? { ...asked, ...live } : (live ?? asked);
}
