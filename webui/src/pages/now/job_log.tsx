/** The live log of one job under the timeline, with what is known of the job above it. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Job } from "../../api/types";
import { onJobs } from "../../live/live";
import { mayChange } from "../../session";
import { commandLine, duration, printable, ranFor, where } from "../../ui/format";
import { now, useWish } from "../../ui/hooks";
import { actOnJobs, oneJob } from "../../ui/job_actions";
import { JobLog } from "../../ui/log/log";
import { markOf, Progress, StateMark } from "../../ui/parts";

export function ChosenJob(props: { job: number }) {
  const job = useSignal<Job | null>(null);
  useWish({ jobs: [props.job], look: true });
  useEffect(
    () =>
      onJobs((jobs) => {
        const found = jobs.get(props.job);
        if (found !== undefined) job.value = found;
      }),
    [job, props.job],
  );
  return (
    <section class="panel job-log" aria-label={`Log of job ${props.job}`}>
      <Head id={props.job} job={job.value} />
      <div class="job-log-lines">
        <JobLog job={props.job} split={job.value?.split ?? false} attempt={null} isCompact hasKeys={false} />
      </div>
    </section>
  );
}

function Head(props: { id: number; job: Job | null }) {
  const { job } = props;
  const ran = job ? ranFor(job, now.value) : null;
  const isUnfinished = job !== null && job.finished === null;
  return (
    <div class="job-log-head">
      <a href={`/jobs/${props.id}`}>
        <strong>{props.id}</strong>
      </a>
      {job?.name ? <bdi>{printable(job.name)}</bdi> : null}
      {job ? <StateMark state={markOf(job)} /> : null}
      {ran !== null ? <span class="faint">{duration(ran)}</span> : null}
      {job?.allocation ? <span class="faint">{where(job.allocation)}</span> : null}
      <Progress progress={job?.progress} />
      <code class="job-log-command" title={job ? printable(commandLine(job)) : ""}>
        {job ? printable(commandLine(job)) : ""}
      </code>
      {job && mayChange(job) ? (
        <button
          type="button"
          class="job-log-act"
          onClick={() => void actOnJobs(isUnfinished ? "kill" : "rerun", oneJob(job.id))}
        >
          {isUnfinished ? "Kill" : "Rerun"}
        </button>
      ) : null}
    </div>
  );
}
