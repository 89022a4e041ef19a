/** The columns of the table of jobs. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type Job, NEUTRAL_PRIORITY } from "../../api/types";
import { remembered } from "../../settings";
import { amounts, clock, commandLine, duration, fullTime, printable, ranFor, where } from "../../ui/format";
import { now } from "../../ui/hooks";

import { markOf, Progress, StateMark, Text } from "../../ui/parts";

export interface Column {
  id: string;
  title: string;
  /** What the daemon sorts by, and the order of the first click. */
  sort?: string;
  order?: "asc" | "desc";
  width: string;
  isNumber?: boolean;
  cell: (job: Job) => ComponentChildren;
}

/** Characters of a command that a row holds; the page of the job has all of them. */
const COMMAND_SHOWN = 400;

export const COLUMNS: readonly Column[] = [
  { id: "state", title: "State", sort: "state", order: "asc", width: "124px", cell: (job) => <RowState job={job} /> },
  {
    id: "id",
    title: "Id",
    sort: "id",
    order: "desc",
    width: "72px",
    isNumber: true,
    cell: (job) => (
      <a href={`/jobs/${job.id}`} tabIndex={-1}>
        {job.id}
      </a>
    ),
  },
  {
    id: "name",
    title: "Name",
    sort: "name",
    order: "asc",
    width: "minmax(72px, 0.8fr)",
    cell: (job) => <Text>{job.name}</Text>,
  },
  {
    id: "command",
    title: "Command",
    width: "minmax(140px, 2.6fr)",
    cell: (job) => <Text class="mono">{commandLine(job).slice(0, COMMAND_SHOWN)}</Text>,
  },
  {
    id: "queue",
    title: "Queue",
    sort: "queue",
    order: "asc",
    width: "minmax(76px, 0.5fr)",
    cell: (job) => <Text>{job.queue}</Text>,
  },
  { id: "request", title: "Request", width: "minmax(84px, 0.7fr)", cell: (job) => <Text>{asked(job)}</Text> },
  {
    id: "where",
    title: "Where",
    sort: "worker",
    order: "asc",
    width: "minmax(84px, 0.7fr)",
    cell: (job) => <Text>{place(job)}</Text>,
  },
  {
    id: "project",
    title: "Project",
    width: "minmax(72px, 0.6fr)",
    cell: (job) => <Text>{job.project}</Text>,
  },
  {
    id: "started",
    title: "Started",
    sort: "started",
    order: "desc",
    width: "128px",
    isNumber: true,
    cell: (job) => <Started job={job} />,
  },
  {
    id: "duration",
    title: "Duration",
    sort: "duration",
    order: "desc",
    width: "92px",
    isNumber: true,
    cell: (job) => <Ran job={job} />,
  },
  { id: "priority", title: "Priority", sort: "priority", order: "desc", width: "72px", isNumber: true, cell: priority },
  {
    id: "finished",
    title: "Ended",
    sort: "finished",
    order: "desc",
    width: "128px",
    isNumber: true,
    cell: (job) => <Ended job={job} />,
  },
  { id: "why", title: "Progress, why", width: "minmax(150px, 2fr)", cell: (job) => <Why job={job} /> },
];

const USUAL = ["state", "id", "name", "command", "queue", "request", "where", "started", "duration", "why"];

/** The columns that this browser shows; null for the usual ones, and the project where jobs have one. */
export const chosenColumns = remembered<string[] | null>("columns", null, (value) =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : undefined,
);

export function shownColumns(chosen: readonly string[] | null, hasProject: boolean): Column[] {
  const ids = chosen ?? (hasProject ? [...USUAL, "project"] : USUAL);
  return COLUMNS.filter((column) => column.id === "id" || ids.includes(column.id));
}

/** Return the column template of the grid: a checkbox first. */
export function template(columns: readonly Column[]): string {
  return ["36px", ...columns.map((column) => column.width)].join(" ");
}

export function asked(job: Job): string {
  return amounts(job.request);
}

/** Whether rows name the worker beside the devices: with one worker it would only take room. */
export const namesWorkers = signal(false);

/** Return where a job is: its devices and its worker. */
export function place(job: Job): string {
  const devices = where(job.allocation);
  return devices && !namesWorkers.value ? devices : [devices, job.worker].filter(Boolean).join(" · ");
}

/** Return what a row says of a job in words: why it failed or waits, or what it wrote last. */
export function whyWords(job: Job): string {
  switch (job.state) {
    case "failed":
      return job.cause ?? job.error ?? job.last_line ?? job.outcome ?? "";
    case "running":
    case "succeeded":
      return job.unreachable || job.suspended ? (job.reason ?? "") : (job.last_line ?? "");
    default:
      return job.reason ?? job.cannot_start ?? job.last_line ?? "";
  }
}

function priority(job: Job) {
  return <span class={job.priority === NEUTRAL_PRIORITY ? "faint" : undefined}>{job.priority}</span>;
}

export function RowState(props: { job: Job }) {
  const { job } = props;
  return (
    <>
      <StateMark state={markOf(job)} />
      {job.unreachable ? <span title={printable(job.reason ?? "")}> ?</span> : null}
      {job.attempt > 1 ? (
        <span class="faint" title={`attempt ${job.attempt}`}>
          {" "}
          ×{job.attempt}
        </span>
      ) : null}
    </>
  );
}

export function Why(props: { job: Job }) {
  const { job } = props;
  const text = whyWords(job);
  return (
    <>
      {job.state === "running" ? <Progress progress={job.progress} /> : null}
      <Text class={job.state === "failed" ? "why failed" : "why"}>{text}</Text>
    </>
  );
}

function Started(props: { job: Job }) {
  const { job } = props;
  if (job.started) return <time title={fullTime(job.started)}>{clock(job.started, new Date(dayOf(now.value)))}</time>;
  const age = (now.value - Date.parse(job.created)) / 1000;
  return (
    <span class="faint" title={`submitted ${fullTime(job.created)}`}>
      {duration(age)} old
    </span>
  );
}

/** Round the time to a minute: a clock without seconds need not be drawn each second. */
function dayOf(time: number): number {
  return time - (time % 60_000);
}

function Ended(props: { job: Job }) {
  const { finished } = props.job;
  return finished ? <time title={fullTime(finished)}>{clock(finished)}</time> : null;
}

export function Ran(props: { job: Job }) {
  const { job } = props;
  const seconds = job.finished ? ranFor(job) : ranFor(job, now.value);
  return seconds === null ? null : <span>{duration(seconds)}</span>;
}
