/** The screen Job: what it is, how it is, its log, its story, and everything that is known of it. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Job as JobDocument } from "../../api/types";
import { addShortcuts } from "../../keys";
import { go, hash, path, query, search, setQuery } from "../../router";
import { mayChange } from "../../session";
import { amounts, clock, commandLine, fullTime, printable, where } from "../../ui/format";
import { now } from "../../ui/hooks";
import type { Action } from "../../ui/job_actions";
import type { Marked } from "../../ui/log/controller";
import { JobLog } from "../../ui/log/log";
import { Copy, Empty, markOf, Problem, Progress, StateMark, Text } from "../../ui/parts";
import type { ScreenProps } from "../routes";
import { actionsOf, copyLine, JobActions, run } from "./actions";
import { type JobDetails, useJob } from "./details";
import { Facts } from "./facts";
import { markedIn } from "./marked";
import { sentence } from "./sentence";
import { Story } from "./story";
import "./job.css";

const TABS = [
  ["log", "Log"],
  ["story", "Story"],
  ["details", "Details"],
] as const;

export default function Job(props: ScreenProps) {
  const id = Number(props.id);
  if (!Number.isSafeInteger(id) || id < 1) return <NoJob id={props.id ?? ""} words={null} />;
  return <OneJob id={id} />;
}

function OneJob(props: { id: number }) {
  const { id } = props;
  const { job, isGone, details } = useJob(id);
  useTitle(job);
  useKeys(job);
  if (isGone) return <NoJob id={String(id)} words="It was removed, or it was never submitted." />;
  if (!job) return details.error ? <NoJob id={String(id)} words={details.error} /> : <p class="boot">Loading…</p>;
  const tab = query.value.get("tab") ?? "log";
  return (
    <div class="job">
      <Head job={job} details={details.value} />
      <Tabs tab={tab} job={job} />
      <div class="job-tab" role="tabpanel" id="job-tab" aria-labelledby={`tab-${tab}`}>
        {tab === "story" && details.value ? (
          <Story details={details.value} id={id} />
        ) : tab === "details" ? (
          <Facts job={job} details={details.value} />
        ) : (
          <LogTab job={job} />
        )}
      </div>
    </div>
  );
}

function NoJob(props: { id: string; words: string | null }) {
  return (
    <Empty>
      <h1>There is no job {printable(props.id)}</h1>
      {props.words ? <p>{printable(props.words)}</p> : null}
      <p>
        <a href="/jobs">All jobs</a>
      </p>
    </Empty>
  );
}

function Head(props: { job: JobDocument; details: JobDetails | null }) {
  const { job, details } = props;
  const line = commandLine(job);
  const isOpen = useSignal(false);
  const cause = job.state === "failed" ? (job.cause ?? null) : null;
  return (
    <header class="job-head">
      <div class="job-title">
        <h1>
          <StateMark state={markOf(job)} /> <span class="job-id">{job.id}</span> <Text>{job.name}</Text>
        </h1>
        <JobActions job={job} details={details} />
      </div>
      <p class="job-why">
        <Sentence job={job} details={details} />
        {job.state === "running" ? <Progress progress={job.progress} /> : null}
      </p>
      {cause ? <Problem words={cause} /> : null}
      {job.state === "queued" ? <Hints details={details} /> : null}
      <div class={isOpen.value ? "job-command open" : "job-command"}>
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the whole command is also in the details */}
        <code
          title={isOpen.value ? undefined : "Show all of it"}
          onClick={() => {
            if (getSelection()?.isCollapsed !== false) isOpen.value = !isOpen.value;
          }}
        >
          <Text>{line}</Text>
        </code>
        <Copy text={line} />
        <button
          type="button"
          class="quiet copy"
          title="Copy a `grass enqueue` that submits the same job"
          onClick={() => void copyLine(job.id)}
        >
          Copy as CLI
        </button>
      </div>
      <JobFacts job={job} />
    </header>
  );
}

/** Jobs that a link leads to from a job that waits for them. */
const HOLDERS_SHOWN = 12;

/** Who holds what a waiting job needs, and what would let it start now. */
function Hints(props: { details: JobDetails | null }) {
  const why = props.details?.why;
  const holders = [...new Set((why?.blocked ?? []).flatMap((each) => each.holders))].sort((a, b) => a - b);
  if (!holders.length && !why?.hints?.length) return null;
  return (
    <p class="job-why faint">
      {holders.length ? (
        <span>
          Waits for{" "}
          {holders.slice(0, HOLDERS_SHOWN).map((id, at) => (
            <span key={id}>
              {at ? ", " : ""}
              <a href={`/jobs/${id}`}>job {id}</a>
            </span>
          ))}
          {holders.length > HOLDERS_SHOWN ? ` and ${holders.length - HOLDERS_SHOWN} more` : ""}
        </span>
      ) : null}
      {(why?.hints ?? []).map((hint) => (
        <span key={hint}>Hint: {printable(hint)}</span>
      ))}
    </p>
  );
}

/** The sentence has a clock of its own: the rest of the head is not drawn every second. */
function Sentence(props: { job: JobDocument; details: JobDetails | null }) {
  const time = props.job.state === "running" ? now.value : 0;
  return <Text>{sentence(props.job, props.details, time)}</Text>;
}

function JobFacts(props: { job: JobDocument }) {
  const { job } = props;
  const at = [where(job.allocation), job.worker].filter(Boolean).join(" · ");
  const facts: [string, string | null | undefined, string?][] = [
    ["queue", job.queue],
    ["asks for", amounts(job.request)],
    ["on", at],
    ["pid", job.state === "running" && job.pid ? String(job.pid) : null],
    ["project", job.project],
    ["submitted", clock(job.created), fullTime(job.created)],
    ["rerun of", job.rerun_of === null ? null : String(job.rerun_of)],
  ];
  return (
    <dl class="job-facts">
      {facts
        .filter(([, value]) => value)
        .map(([name, value, title]) => (
          <div key={name} title={title}>
            <dt>{name}</dt>
            <dd>{name === "rerun of" ? <a href={`/jobs/${job.rerun_of}`}>{job.rerun_of}</a> : <Text>{value}</Text>}</dd>
          </div>
        ))}
    </dl>
  );
}

function Tabs(props: { tab: string; job: JobDocument }) {
  return (
    <div class="job-tabs">
      <div role="tablist" aria-label="What is shown of the job" onKeyDown={tabKey}>
        {TABS.map(([name, words]) => (
          <button
            key={name}
            id={`tab-${name}`}
            type="button"
            role="tab"
            aria-selected={props.tab === name}
            aria-controls="job-tab"
            tabIndex={props.tab === name ? 0 : -1}
            onClick={() => setQuery({ tab: name === "log" ? null : name })}
          >
            {words}
          </button>
        ))}
      </div>
      {props.job.attempt > 1 && props.tab === "log" ? <AttemptChoice job={props.job} /> : null}
    </div>
  );
}

/** Arrow keys go from tab to tab. */
function tabKey(event: KeyboardEvent): void {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (!by || !(event.target instanceof HTMLElement)) return;
  const tabs = [...(event.target.parentElement?.children ?? [])] as HTMLElement[];
  const next = tabs[(tabs.indexOf(event.target) + by + tabs.length) % tabs.length];
  event.preventDefault();
  next?.click();
  next?.focus();
}

function AttemptChoice(props: { job: JobDocument }) {
  const { attempt } = props.job;
  const chosen = query.value.get("attempt") ?? "";
  return (
    <label class="faint">
      Attempt{" "}
      <select
        value={chosen}
        onChange={(event) => setQuery({ attempt: event.currentTarget.value })}
        aria-label="The attempt whose log is shown"
      >
        <option value="">the newest ({attempt})</option>
        {Array.from({ length: Math.min(attempt, 100) }, (_, index) => attempt - index).map((number) => (
          <option key={number} value={String(number)}>
            {number}
          </option>
        ))}
      </select>
    </label>
  );
}

function LogTab(props: { job: JobDocument }) {
  const { job } = props;
  const attempt = Number(query.value.get("attempt")) || null;
  return (
    <JobLog job={job.id} split={job.split} attempt={attempt} hasKeys marked={markedIn(hash.value)} onMark={setMarked} />
  );
}

function setMarked(marked: Marked | null): void {
  const name = marked ? `#L${marked.first}${marked.last > marked.first ? `-L${marked.last}` : ""}` : "";
  go(path.value + search.value + name, true);
}

function useTitle(job: JobDocument | null): void {
  const text = job ? `${job.id} ${printable(job.name ?? "")} ${job.state}` : null;
  useEffect(() => {
    if (!text) return;
    const before = document.title;
    document.title = `${text} · Grass`;
    return () => {
      document.title = before;
    };
  }, [text]);
}

function useKeys(job: JobDocument | null): void {
  const offered = job && mayChange(job) ? actionsOf(job).join(" ") : "";
  const id = job?.id;
  useEffect(() => {
    const keys: [string, Action][] = [
      ["K", "kill"],
      ["R", "rerun"],
      ["H", offered.includes("release") ? "release" : "hold"],
    ];
    const words = { kill: "Kill the job", rerun: "Rerun the job", hold: "Hold the job", release: "Release the job" };
    return addShortcuts(
      keys
        .filter(([, action]) => offered.split(" ").includes(action))
        .map(([key, action]) => ({
          keys: key,
          words: words[action as keyof typeof words],
          act: () => {
            if (job) void run(action, job);
          },
        })),
    );
  }, [offered, id]);
}
