/** When jobs start and end: what `GET /v1/eta` answers, asked for again with every answer of the timeline. */

import { useMemo } from "preact/hooks";
import { get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { clock, duration } from "../../ui/format";
import { useAnswer } from "../../ui/hooks";
import type { Estimate } from "./timeline/model";
import { answers, planned } from "./timeline/source";

export type Interval = Schemas["Interval"];

/** A job that is submitted: only a job of `/v1/what-if` has no id. */
export type Expected = Schemas["EtaJob"] & { id: number };

export type EtaAnswer = Omit<Schemas["Eta"], "jobs"> & { jobs: Expected[] };

/** The screen tells one time of a start: the one that the timeline shows, if it shows one. */
export function useEta(): EtaAnswer | null {
  const plan = planned.value;
  const answer = useAnswer<EtaAnswer>(
    String(answers.value),
    (signal) => get("/v1/eta", {}, signal) as Promise<EtaAnswer>,
  ).value;
  return useMemo(() => answer && planAs(answer, plan), [answer, plan]);
}

function planAs(answer: EtaAnswer, plan: ReadonlyMap<number, Estimate>): EtaAnswer {
  const jobs = answer.jobs.map((job) => {
    const starts = plan.get(job.id);
    return starts && job.state === "queued" ? { ...job, starts: interval(starts) } : job;
  });
  return { ...answer, jobs };
}

function interval([low, likely, high]: Estimate): Interval {
  const text = (seconds: number) => new Date(seconds * 1000).toISOString();
  return { low: text(low), likely: text(likely), high: text(high) };
}

/** The range of an estimate is said where it is wider than this, in seconds. */
const RANGE_S = 120;

/** Return when something is expected, such as `~14:31`, and in words for the title. */
export function about(interval: Interval, now: number): { short: string; long: string } {
  const [low, likely, high] = [interval.low, interval.likely, interval.high].map((each) => Date.parse(each)) as [
    number,
    number,
    number,
  ];
  const wait = (likely - now) / 1000;
  const short = wait < 60 ? "soon" : `~${clock(new Date(likely), new Date(now))}`;
  const range =
    high - low > RANGE_S * 1000
      ? `, between ${clock(new Date(low), new Date(now))} and ${clock(new Date(high), new Date(now))}`
      : "";
  return { short, long: `${wait < 60 ? "within a minute" : `in about ${duration(wait)}`}${range}` };
}
