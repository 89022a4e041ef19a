/** What the head of a job's page says in one sentence: why it waits, how far it is, how it ended. */

import type { Job } from "../../api/types";
import { clock, duration, ranFor, where } from "../../ui/format";
import type { Attempt, Interval, JobDetails } from "./details";

/** Return a time such as `about 14:31 (14:20 to 14:50)`; empty if nothing is known. */
export function about(interval: Interval | null | undefined): string {
  if (!interval?.likely) return "";
  const likely = clock(interval.likely);
  const [low, high] = [interval.low ? clock(interval.low) : likely, interval.high ? clock(interval.high) : "?"];
  return low === likely && high === likely ? `about ${likely}` : `about ${likely} (${low} to ${high})`;
}

export function sentence(job: Job, details: JobDetails | null, now: number): string {
  const when = details?.why?.when;
  switch (job.state) {
    case "running":
      return running(job, about(when?.ends), now);
    case "succeeded":
    case "failed":
    case "cancelled":
      return ended(job);
    default: {
      const why = reason(job, details);
      const starts = about(when?.starts);
      return capital([why, starts ? `starts ${starts}` : ""].filter(Boolean).join("; "));
    }
  }
}

function running(job: Job, ends: string, now: number): string {
  const seconds = ranFor(job, now);
  const devices = where(job.allocation);
  const at = devices ? `${devices} of ${job.worker}` : job.worker;
  const parts = [`Has run for ${duration(seconds ?? 0)}${at ? ` on ${at}` : ""}`];
  if (job.cancel_requested) parts.push("is being killed");
  if (job.unreachable || job.cannot_end) parts.push(job.reason ?? job.cannot_end ?? "");
  if (job.suspended) return [...parts, job.reason ?? "suspended"].filter(Boolean).join("; ");
  const left = job.progress?.left_s;
  if (typeof left === "number") parts.push(`its progress says ${duration(left)} left`);
  else if (ends) parts.push(`ends ${ends}`);
  return parts.filter(Boolean).join("; ");
}

function ended(job: Job): string {
  const seconds = ranFor(job);
  const ran = seconds === null ? "never started" : `ran for ${duration(seconds)}`;
  const how = outcome(job);
  return capital([how, ran, job.finished ? `ended ${clock(job.finished)}` : ""].filter(Boolean).join("; "));
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Return how a job or an attempt ended: `exit code 3`, `signal 9`. */
export function outcome(job: Pick<Attempt, "exit_code" | "signal" | "outcome" | "error">): string {
  if (job.error) return job.error;
  if (job.signal !== null) return `signal ${job.signal}`;
  if (job.exit_code !== null) return `exit code ${job.exit_code}`;
  return job.outcome ?? "";
}

/** Return why a job waits: the first line says what it asks for, the others say what is missing. */
function reason(job: Job, details: JobDetails | null): string {
  const lines = details?.why?.text.split("\n") ?? [];
  const text = lines.length > 1 ? lines.slice(1).join("; ") : (job.cannot_start ?? job.reason ?? lines[0] ?? "");
  return text.replace(/\s+/g, " ").trim() || "is about to start";
}
