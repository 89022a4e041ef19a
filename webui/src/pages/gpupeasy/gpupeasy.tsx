/** GPUPeasy's four lists, live: what each device runs, and the scheduled, successful and failed jobs of its queue. */

import { get } from "../../api/client";
import type { Job, Schemas } from "../../api/types";
import { devices, paused, queues } from "../../live/live";
import { query } from "../../router";
import { mayAdmin, mayChange, maySubmit } from "../../session";
import { clock, commandLine, count, duration, fullTime, plural, ranFor, where } from "../../ui/format";
import { now, useAnswer, useMoves, useWish } from "../../ui/hooks";
import { actOnJobs, oneJob } from "../../ui/job_actions";
import { PlainTable, Problem, StateMark, Text } from "../../ui/parts";
import { pause, resume } from "../../ui/queue_actions";
import { GPUPEASY_QUEUE } from "../submit/form";
import "./gpupeasy.css";

const SHOWN = 50;
const REFRESH_MS = 250;

type Window = Schemas["Window"];

interface List {
  title: string;
  states: string;
  order: "asc" | "desc";
  empty: string;
}

const LISTS = {
  running: { title: "Device Utilization", states: "running,placed", order: "asc", empty: "No device runs a job." },
  scheduled: { title: "Scheduled Jobs", states: "queued,waiting,held", order: "asc", empty: "No job waits." },
  successful: { title: "Successful Jobs", states: "succeeded", order: "desc", empty: "No job has succeeded yet." },
  failed: { title: "Failed Jobs", states: "failed,cancelled", order: "desc", empty: "No job has failed." },
} satisfies Record<string, List>;

export default function GpuPeasy() {
  useWish({ devices: true, queues: true });
  const queue = query.value.get("queue") ?? GPUPEASY_QUEUE;
  return (
    <>
      <div class="bar">
        <h1 class="grow">
          Queue <Text>{queue}</Text>
        </h1>
        <Pause queue={queue} />
        {maySubmit.value ? <a href={`/batchaddjobs?queue=${encodeURIComponent(queue)}`}>Add jobs</a> : null}
      </div>
      <div class="gpupeasy">
        <JobList queue={queue} list={LISTS.running} columns={["device", "pid", "ran"]} action={KILL} />
        <JobList queue={queue} list={LISTS.scheduled} columns={["priority", "created"]} action={REMOVE} />
        <JobList queue={queue} list={LISTS.successful} columns={["ran", "ended"]} clear="succeeded" />
        <JobList queue={queue} list={LISTS.failed} columns={["why", "ended"]} action={RERUN} clear="failed,cancelled" />
      </div>
    </>
  );
}

interface Action {
  words: string;
  act: (job: Job) => Promise<unknown>;
}

const KILL: Action = { words: "Kill", act: (job) => actOnJobs("kill", oneJob(job.id)) };
const REMOVE: Action = { words: "Remove", act: (job) => actOnJobs("kill", oneJob(job.id)) };
const RERUN: Action = { words: "Rerun", act: (job) => actOnJobs("rerun", oneJob(job.id)) };

type ColumnName = "device" | "pid" | "ran" | "priority" | "created" | "ended" | "why";

const COLUMNS: Record<ColumnName, { words: string; of: (job: Job) => string; title?: (job: Job) => string }> = {
  device: { words: "Device", of: (job) => where(job.allocation) },
  pid: { words: "PID", of: (job) => (job.pid === null ? "" : String(job.pid)) },
  ran: { words: "Time", of: (job) => durationOf(job) },
  priority: { words: "Priority", of: (job) => String(job.priority) },
  created: { words: "Added", of: (job) => clock(job.created), title: (job) => fullTime(job.created) },
  ended: { words: "Ended", of: (job) => clock(job.finished), title: (job) => fullTime(job.finished) },
  why: { words: "Return code", of: returnCode },
};

function durationOf(job: Job): string {
  const seconds = ranFor(job, now.value);
  return seconds === null ? "" : duration(seconds);
}

function returnCode(job: Job): string {
  if (job.state === "cancelled") return "killed";
  if (job.exit_code !== null) return String(job.exit_code);
  return job.signal === null ? (job.outcome ?? "") : `signal ${job.signal}`;
}

function JobList(props: {
  queue: string;
  list: List;
  columns: readonly ColumnName[];
  action?: Action;
  clear?: string;
}) {
  const { list, queue } = props;
  const turn = useMoves(REFRESH_MS);
  const q = `queue:${queue} state:${list.states}`;
  const found = useAnswer<Window>(`${q} ${turn}`, (signal) =>
    get("/v1/jobs/window", { q, sort: "id", order: list.order, count: SHOWN }, signal),
  );
  const jobs = found.value?.jobs ?? [];
  const total = found.value?.count ?? 0;
  return (
    <section class="panel" aria-label={list.title}>
      <div class="bar">
        <h2 class="grow">
          {list.title} <span class="faint">{count(total)}</span>
        </h2>
        {props.clear && maySubmit.value && total ? (
          <button
            type="button"
            onClick={() => void actOnJobs("cleanKeepingLogs", { q, words: `all ${list.title.toLowerCase()}` })}
          >
            Clear
          </button>
        ) : null}
      </div>
      <Problem words={found.error} />
      {list === LISTS.running ? <FreeDevices queue={queue} /> : null}
      {found.value && jobs.length === 0 ? <p class="faint">{list.empty}</p> : null}
      {jobs.length ? (
        <PlainTable
          heads={["Job", "Name", "Command", ...props.columns.map((name) => COLUMNS[name].words)]}
          last={props.action && maySubmit.value ? "Action" : undefined}
        >
          {jobs.map((job) => (
            <tr key={job.id}>
              <td>
                <StateMark state={job.state} word={false} />
                <a href={`/jobs/${job.id}`}>{job.id}</a>
              </td>
              <td>
                <Text>{job.name}</Text>
              </td>
              <td class="mono clip">
                <Text>{commandLine(job)}</Text>
              </td>
              {props.columns.map((name) => (
                <td key={name} title={COLUMNS[name].title?.(job)}>
                  {COLUMNS[name].of(job)}
                </td>
              ))}
              {props.action && maySubmit.value ? (
                <td>
                  {mayChange(job) ? (
                    <button type="button" onClick={() => void props.action?.act(job)}>
                      {props.action.words}
                    </button>
                  ) : null}
                </td>
              ) : null}
            </tr>
          ))}
        </PlainTable>
      ) : null}
      {total > jobs.length ? <a href={`/jobs?q=${encodeURIComponent(q)}`}>All {plural(total, "job")}</a> : null}
    </section>
  );
}

/** The slots of the queue that have no job, unless one of their devices takes no new jobs. */
function FreeDevices(props: { queue: string }) {
  const resting = new Set(
    (devices.value ?? []).filter((device) => device.drained || !device.online).map((device) => device.id),
  );
  const free = (queues.value ?? [])
    .filter((offer) => offer.name === props.queue)
    .flatMap((offer) => offer.slots)
    .filter((slot) => slot.job === null && !slot.name.split(",").some((id) => resting.has(id)));
  if (!free.length) return null;
  return <p class="faint">Free: {free.map((slot) => slot.name || "a slot without a device").join("; ")}</p>;
}

function Pause(props: { queue: string }) {
  const offer = (queues.value ?? []).find((each) => each.name === props.queue);
  if (!offer)
    return (
      <span class="faint">
        There is no such queue yet: <code>gpupeasy-server</code> makes it.
      </span>
    );
  if (!mayAdmin.value) return offer.paused ? <span>paused</span> : null;
  if (paused.value.has(props.queue))
    return (
      <button type="button" onClick={() => void resume(props.queue)}>
        Resume the scheduler
      </button>
    );
  if (offer.paused)
    return (
      <button type="button" onClick={() => void resume(null)}>
        Resume everything
      </button>
    );
  return (
    <button type="button" onClick={() => void pause(props.queue)}>
      Pause the scheduler
    </button>
  );
}
