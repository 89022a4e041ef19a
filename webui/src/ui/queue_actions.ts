/** Pause and resume: of one queue, or of everything. */

import { change } from "../api/client";
import { confirm } from "./dialog";
import { printable } from "./format";
import { attempt } from "./toast";

/** The name that stands for all queues together among the paused ones. */
export const EVERYTHING = "";

/** Return a queue in words; null is all of them. */
function named(queue: string | null): string {
  return queue === null ? "everything" : `queue ${printable(queue)}`;
}

/** Pause a queue, or with null everything, after a question. */
export async function pause(queue: string | null): Promise<void> {
  const text = "Running jobs go on. No other job starts until somebody resumes; new jobs can still be submitted.";
  if (await confirm(`Pause ${named(queue)}?`, text, "Pause")) await send("pause", queue);
}

/** Let the jobs of a queue start again, or with null all jobs. */
export function resume(queue: string | null): Promise<boolean> {
  return send("resume", queue);
}

function send(verb: "pause" | "resume", queue: string | null): Promise<boolean> {
  return attempt(async () => {
    const done = await change(`/v1/${verb}`, queue === null ? {} : { queue });
    return [`${named(queue)} is ${verb === "pause" ? "paused" : "resumed"}`, ...done.notes].join("; ");
  });
}
