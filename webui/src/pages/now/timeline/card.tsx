/** What a block is about, in words: beside the pointer, and for screen readers. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Job } from "../../../api/types";
import { onJobs } from "../../../live/live";
import { amounts, clock, clockWithSeconds, duration, printable } from "../../../ui/format";
import { useWish } from "../../../ui/hooks";
import { type Mark, StateMark } from "../../../ui/parts";
import { type Block, type JobBlock, type JobWords, type Lane, laneName } from "./model";

/** A shorter stretch of today is told with seconds. */
const SECONDS_MAX = 600;

function time(seconds: number): string {
  return clock(new Date(seconds * 1000));
}

/** Return a time for one end of a stretch: with seconds if the stretch is short. */
function timeIn(seconds: number, length: number): string {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday && length < SECONDS_MAX ? clockWithSeconds(date) : time(seconds);
}

/** Return when an attempt ran, runs or is expected to run. */
export function timesOf(block: Block, now: number): string {
  const length = (block.to ?? now) - block.from;
  const ends = () => `${timeIn(block.from, length)} to ${timeIn(block.to ?? now, length)}`;
  if (block.kind === "merged") return ends();
  if (block.kind === "past") return `${ends()}, ${duration(length)}`;
  if (block.kind === "running") {
    const expected = block.ends
      ? `, ends about ${time(block.ends[1])} (${time(block.ends[0])} to ${time(block.ends[2])})`
      : "";
    return `since ${time(block.from)}, ${duration(now - block.from)}${expected}`;
  }
  const starts = block.starts;
  if (!starts) return "start not known";
  const range = starts[2] - starts[0] > 90 ? ` (${time(starts[0])} to ${time(starts[2])})` : "";
  return `starts about ${time(starts[1])}${range}`;
}

/** Return a block as one sentence. */
export function sentence(
  lane: Lane,
  block: Block,
  job: JobWords | undefined,
  now: number,
  diagnosis: string | null = null,
): string {
  if (block.kind === "merged") {
    const failed = block.failed ? `, ${block.failed} failed` : "";
    return `${block.count} short jobs on ${laneName(lane)}, ${timesOf(block, now)}${failed}`;
  }
  const name = printable(job?.name ?? job?.command ?? "");
  const state = block.kind === "planned" ? "planned" : block.state;
  return `job ${block.job} ${name}, ${state}${causeOf(block, diagnosis)}, ${laneName(lane)}, ${timesOf(block, now)}`;
}

function causeOf(block: JobBlock, diagnosis: string | null): string {
  const words = [block.cause, diagnosis].filter(Boolean).join(": ");
  return words ? ` (${printable(words)})` : "";
}

/** Return what the log says of a failed attempt, where the daemon can tell; only the last attempt of a job has this. */
export function useDiagnosis(block: Block | null): string | null {
  const failed = block && block.kind === "past" && block.state === "failed" ? block : null;
  const found = useSignal<Job | null>(null);
  useWish(failed ? { jobs: [failed.job], look: true } : {});
  const id = failed?.job ?? null;
  useEffect(
    () =>
      onJobs((jobs) => {
        const job = id === null ? null : jobs.get(id);
        if (job) found.value = job;
      }),
    [found, id],
  );
  const job = found.value;
  if (!failed || !job || job.id !== failed.job || job.attempt !== failed.attempt) return null;
  return job.cause ?? null;
}

/** The card beside the pointer. */
export function Card(props: {
  lane: Lane;
  block: Block;
  job: JobWords | undefined;
  now: number;
  diagnosis: string | null;
}) {
  const { lane, block, job, now, diagnosis } = props;
  if (block.kind === "merged")
    return (
      <>
        <strong>{block.count} short jobs</strong>
        <div>
          {timesOf(block, now)}
          {block.failed ? `, ${block.failed} failed` : ""}
        </div>
        <div class="faint">Zoom in to see each of them.</div>
      </>
    );
  return (
    <>
      <div class="card-head">
        <strong>
          {block.job} {printable(job?.name ?? "")}
        </strong>
        {block.kind === "planned" ? (
          <span class="state queued">planned</span>
        ) : (
          <StateMark state={block.state as Mark} />
        )}
        {block.cause ? <span class="state failed">{printable(block.cause)}</span> : null}
      </div>
      {diagnosis ? <div class="card-why">{printable(diagnosis)}</div> : null}
      <code class="card-command">{printable(job?.command ?? "")}</code>
      <div>{timesOf(block, now)}</div>
      <div class="faint">
        {[
          laneName(lane),
          job ? amounts(job.request) : "",
          job ? `queue ${printable(job.queue)}` : "",
          block.attempt > 1 ? `attempt ${block.attempt}` : "",
          job?.by ? `by ${printable(job.by)}` : "",
        ]
          .filter(Boolean)
          .join(" · ")}
      </div>
    </>
  );
}
