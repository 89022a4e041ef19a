/** The line beside the timeline: the next jobs in the order in which they start, each with when or why not. */

import { useSignal } from "@preact/signals";
import type { Job } from "../../api/types";
import { devices } from "../../live/live";
import { mayChange } from "../../session";
import { commandLine, count, printable } from "../../ui/format";
import { now } from "../../ui/hooks";
import { useJobs } from "../../ui/jobs";
import { moveJob, placed } from "../../ui/line_order";
import { type Move, Reorder } from "../../ui/reorder";
import { about, type EtaAnswer, type Expected } from "./eta";
import { lacking } from "./lacking";

export function Line(props: { eta: EtaAnswer | null; selected: number | null }) {
  const waiting = props.eta?.jobs.filter((job) => job.state === "queued") ?? [];
  // What somebody has moved is shown there at once; the daemon's order replaces it with its next answer.
  const moved = useSignal<{ of: EtaAnswer; ids: number[] } | null>(null);
  const ids = moved.value && moved.value.of === props.eta ? moved.value.ids : waiting.map((job) => job.id);
  const byId = new Map(waiting.map((job) => [job.id, job]));
  const items = ids.map((id) => byId.get(id)).filter((job): job is Expected => job !== undefined);
  const jobs = useJobs(ids);
  void devices.value;
  const rest = (props.eta?.queued ?? 0) - items.length;
  const move = async (id: number, where: Move) => {
    if (props.eta) moved.value = { of: props.eta, ids: placed(ids, id, where) };
    if (!(await moveJob(id, where))) moved.value = null;
  };
  return (
    <section class="panel line" aria-labelledby="line-title">
      <h2 id="line-title">
        Next <span class="faint">{props.eta ? count(props.eta.queued ?? 0) : ""}</span>
      </h2>
      {props.eta && !items.length ? <p class="faint">Nothing waits.</p> : null}
      <Reorder
        items={items}
        label="Jobs that start next, in order"
        mayMove={(job) => mayChange(jobs.get(job.id))}
        mayPass={(job) => mayChange(jobs.get(job.id))}
        nameOf={(job) => `job ${job.id}`}
        onMove={(id, where) => void move(id, where)}
      >
        {(job, above) => <LineRow job={job} why={newWords(job, above, jobs)} isChosen={job.id === props.selected} />}
      </Reorder>
      {rest > 0 ? (
        <p class="line-rest">
          <a href="/jobs?q=state:queued">and {count(rest)} more</a>
        </p>
      ) : null}
    </section>
  );
}

/** Return why a job waits, unless the job above waits for the same. */
function newWords(job: Expected, above: Expected | undefined, jobs: ReadonlyMap<number, Job>): string | null {
  const of = (each: Expected) => whyOf(jobs.get(each.id)) ?? each.reason;
  return above && of(above) === of(job) ? null : of(job);
}

function LineRow(props: { job: Expected; why: string | null; isChosen: boolean }) {
  const { job, why } = props;
  const expected = job.starts ? about(job.starts, now.value) : null;
  return (
    <div class={props.isChosen ? "line-row chosen" : "line-row"}>
      <a href={`/jobs/${job.id}`} class="line-job" title={printable(commandLine(job))}>
        {job.id} <bdi>{printable(job.name ?? commandLine(job))}</bdi>
      </a>
      <span class="line-when" title={expected ? `Starts ${expected.long}` : (job.reason ?? "")}>
        {expected?.short ?? "not known"}
      </span>
      {why ? (
        <span class="line-why faint" title={printable(why)}>
          {printable(why)}
        </span>
      ) : null}
    </div>
  );
}

function whyOf(job: Job | undefined): string | null {
  if (!job || !["queued", "waiting", "held"].includes(job.state)) return null;
  return job.reason ?? lacking(job.request, devices.peek() ?? []);
}
