/** Hears of some jobs for as long as a screen shows them. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Job } from "../api/types";
import { onJobs } from "../live/live";
import { useWish } from "./hooks";

/** Return the documents of jobs by id, as far as they have come. */
export function useJobs(ids: readonly number[]): ReadonlyMap<number, Job> {
  const jobs = useSignal<ReadonlyMap<number, Job>>(new Map());
  const wanted = [...new Set(ids)].sort((a, b) => a - b);
  const key = wanted.join(" ");
  useWish({ jobs: wanted });
  useEffect(() => {
    const shown = new Set(key ? key.split(" ").map(Number) : []);
    jobs.value = new Map([...jobs.peek()].filter(([id]) => shown.has(id)));
    return onJobs((changed) => {
      const next = new Map(jobs.peek());
      for (const [id, job] of changed) {
        if (job && shown.has(id)) next.set(id, job);
        else next.delete(id);
      }
      jobs.value = next;
    });
  }, [jobs, key]);
  return jobs.value;
}
