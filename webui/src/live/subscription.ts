/** What the screens of one tab want to hear, joined into one message to the daemon. */

import { FINAL, type Job, type Schemas } from "../api/types";

/** The most jobs that one tab hears about; the daemon refuses more. */
export const JOBS_MAX = 500;

export type LogWish = Schemas["LogWish"];

/** What the tab wants. With `look` the jobs come with the last line, the progress and the cause of a failure. */
export type Subscription = Schemas["Wish"];

/** What one screen wants. */
export type Wish = Partial<Omit<Subscription, "jobs">> & { jobs?: readonly number[] };

const PARTS = ["totals", "devices", "queues", "workers", "look"] as const;

/** Join the wishes of all screens. The log is the one of the screen that asked last: a tab follows one log. */
export function join(wishes: Iterable<Wish>): Subscription {
  const jobs = new Set<number>();
  const none = { totals: false, devices: false, queues: false, workers: false, look: false };
  const joined: Subscription = { ...none, jobs: [], log: null };
  for (const wish of wishes) {
    for (const part of PARTS) joined[part] ||= wish[part] ?? false;
    for (const job of wish.jobs ?? []) if (jobs.size < JOBS_MAX) jobs.add(job);
    if (wish.log) joined.log = wish.log;
  }
  joined.jobs = [...jobs].sort((a, b) => a - b);
  return joined;
}

/**
 * Return the part of a subscription of which the tab has heard already, in an earlier connection.
 *
 * Of a job that has not ended more may have changed meanwhile than the daemon notes: its worker, and its log.
 */
export function alreadyHeard(
  wanted: Subscription,
  heard: ReadonlyMap<number, Pick<Job, "state"> | null>,
  before: Subscription | null,
): Subscription {
  const hasEnded = (id: number) => {
    const job = heard.get(id);
    return job ? FINAL.has(job.state) : false;
  };
  return { ...wanted, look: wanted.look && before?.look === true, jobs: wanted.jobs.filter(hasEnded) };
}
