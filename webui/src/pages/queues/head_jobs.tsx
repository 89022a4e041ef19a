/** The first jobs of one queue, in the order in which they start; they can be moved. */

import { useSignal } from "@preact/signals";
import { get } from "../../api/client";
import { type Job, NEUTRAL_PRIORITY, type Schemas } from "../../api/types";
import { mayAdmin, mayChange } from "../../session";
import { amounts, commandLine, count, printable } from "../../ui/format";
import { useAnswer, useMoves } from "../../ui/hooks";
import { moveJob, placed } from "../../ui/line_order";
import { Problem } from "../../ui/parts";
import { type Move, Reorder } from "../../ui/reorder";

/** How often the jobs are asked for at most, and how many are shown. */
const ASK_MS = 1_000;
const SHOWN = 20;

type LineAnswer = Schemas["Line"];

export function HeadJobs(props: { queue: string }) {
  const turn = useMoves(ASK_MS);
  const line = useAnswer<LineAnswer>(`${props.queue} ${turn}`, (signal) =>
    get("/v1/line", { queue: props.queue, count: SHOWN }, signal),
  );
  const moved = useSignal<{ of: LineAnswer; ids: number[] } | null>(null);
  const answer = line.value;
  if (!answer) return <Problem words={line.error} />;
  if (!answer.jobs.length) return <p class="faint head-none">No job waits for its turn in this queue.</p>;
  const ids = moved.value?.of === answer ? moved.value.ids : answer.jobs.map((job) => job.id);
  const byId = new Map(answer.jobs.map((job) => [job.id, job]));
  const move = async (id: number, where: Move) => {
    moved.value = { of: answer, ids: placed(ids, id, where) };
    if (!(await moveJob(id, where))) moved.value = null;
  };
  const rest = answer.count - answer.jobs.length;
  return (
    <div class="head-jobs">
      <Reorder
        items={ids.map((id) => byId.get(id)).filter((job): job is Job => job !== undefined)}
        label={`Next jobs of queue ${printable(props.queue)}, in order`}
        mayMove={mayChange}
        mayPass={() => mayAdmin.value}
        nameOf={(job) => `job ${job.id}`}
        onMove={(id, where) => void move(id, where)}
      >
        {(job, above) => <HeadRow job={job} above={above} onMove={(where) => void move(job.id, where)} />}
      </Reorder>
      {rest > 0 ? (
        <a href={`/jobs?q=${encodeURIComponent(`state:queued queue:${props.queue}`)}`}>and {count(rest)} more</a>
      ) : null}
    </div>
  );
}

function HeadRow(props: { job: Job; above: Job | undefined; onMove: (move: Move) => void }) {
  const { job } = props;
  const why = job.reason !== props.above?.reason ? job.reason : null;
  return (
    <div class="head-row">
      <a href={`/jobs/${job.id}`}>{job.id}</a>
      <bdi class="head-name" title={printable(commandLine(job))}>
        {job.name ? `${printable(job.name)} ` : ""}
        <code class="faint">{printable(commandLine(job))}</code>
      </bdi>
      <span class="faint head-request">
        {amounts(job.request)}
        {job.priority !== NEUTRAL_PRIORITY ? `, priority ${job.priority}` : ""}
      </span>
      <span class="head-buttons">
        {/* Of the jobs of other queues that it would pass, this list does not tell whose they are. */}
        {mayAdmin.value ? <MoveButton id={job.id} where="first" onMove={props.onMove} /> : null}
        {mayChange(job) ? <MoveButton id={job.id} where="last" onMove={props.onMove} /> : null}
      </span>
      {why ? <span class="faint head-why">{printable(why)}</span> : null}
    </div>
  );
}

function MoveButton(props: { id: number; where: "first" | "last"; onMove: (move: Move) => void }) {
  const place = props.where === "first" ? "to the front" : "to the end";
  return (
    <button
      type="button"
      class="quiet"
      title={`Move ${place}`}
      aria-label={`Move job ${props.id} ${place}`}
      onClick={() => props.onMove({ where: props.where, target: null })}
    >
      {props.where === "first" ? "⤒" : "⤓"}
    </button>
  );
}
