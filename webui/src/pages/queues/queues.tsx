/** The screen Queues: one row a queue, with what waits and runs, its limits, and its next jobs in order. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { change } from "../../api/client";
import type { Queue } from "../../api/types";
import { addShortcuts } from "../../keys";
import { paused, queues } from "../../live/live";
import { mayAdmin } from "../../session";
import { confirm } from "../../ui/dialog";
import { count, plural, printable, quote } from "../../ui/format";
import { Gauge, usesOf } from "../../ui/gauge";
import { useWish } from "../../ui/hooks";
import { EVERYTHING, pause, resume } from "../../ui/queue_actions";
import { attempt } from "../../ui/toast";
import { HeadJobs } from "./head_jobs";
import { GroupLimits } from "./limits";
import { NewQueue } from "./new_queue";
import "./queues.css";

/** A queue with the places where it is offered. */
interface Whole {
  name: string;
  places: Queue[];
  queued: number;
  running: number;
  isPaused: boolean;
}

/** Put the documents of one queue on several workers together. */
function gathered(all: readonly Queue[]): Whole[] {
  const byName = new Map<string, Queue[]>();
  for (const each of all) byName.set(each.name, [...(byName.get(each.name) ?? []), each]);
  return [...byName].map(([name, places]) => ({
    name,
    places,
    queued: Math.max(...places.map((place) => place.queued)),
    running: places.reduce((sum, place) => sum + place.running, 0),
    isPaused: places.some((place) => place.paused),
  }));
}

export default function Queues() {
  useWish({ queues: true, workers: true });
  const isNew = useSignal(false);
  const open = useSignal<string | null>(null);
  const all = queues.value ? gathered(queues.value) : null;
  const pausers = paused.value;
  const isAllPaused = pausers.has(EVERYTHING);
  useEffect(() => {
    document.title = "Queues · Grass";
    if (!mayAdmin.value) return;
    return addShortcuts([{ keys: "n", words: "Queues: make a new one", act: () => (isNew.value = true) }]);
  }, [isNew]);
  return (
    <div class="queues">
      <div class="bar">
        <h1>Queues</h1>
        <span class="grow" />
        {mayAdmin.value ? (
          <>
            <button type="button" onClick={() => void (isAllPaused ? resume(null) : pause(null))}>
              {isAllPaused ? "Resume everything" : "Pause everything"}
            </button>
            <button type="button" class="primary" title="New queue (n)" onClick={() => (isNew.value = true)}>
              New queue
            </button>
          </>
        ) : null}
      </div>
      {isAllPaused ? (
        <p class="note" role="status">
          Everything is paused{by(pausers.get(EVERYTHING))}: running jobs go on, no other job starts.
        </p>
      ) : null}
      {all?.map((queue) => (
        <QueueRow
          key={queue.name}
          queue={queue}
          isOwnPause={pausers.has(queue.name)}
          pauser={pausers.get(queue.name) ?? pausers.get(EVERYTHING)}
          isOpen={open.value === queue.name}
          onToggle={() => {
            open.value = open.value === queue.name ? null : queue.name;
          }}
        />
      ))}
      <GroupLimits />
      {isNew.value ? <NewQueue onClose={() => (isNew.value = false)} /> : null}
    </div>
  );
}

function by(pauser: string | undefined): string {
  return pauser ? ` by ${printable(pauser)}` : "";
}

function QueueRow(props: {
  queue: Whole;
  isOwnPause: boolean;
  pauser: string | undefined;
  isOpen: boolean;
  onToggle: () => void;
}) {
  const { queue } = props;
  const first = queue.places[0]!;
  const search = (states: string) => `/jobs?q=${encodeURIComponent(`state:${states} queue:${queue.name}`)}`;
  return (
    <section class="panel queue" aria-label={`Queue ${printable(queue.name)}`}>
      <div class="queue-head">
        <button type="button" class="quiet queue-name" aria-expanded={props.isOpen} onClick={props.onToggle}>
          <span aria-hidden="true" class="queue-arrow">
            {props.isOpen ? "▾" : "▸"}
          </span>
          <bdi>{printable(queue.name)}</bdi>
        </button>
        {queue.isPaused ? (
          <span class="queue-paused">
            <span aria-hidden="true">‖ </span>paused{by(props.pauser)}
          </span>
        ) : null}
        <a class="queue-count" href={search("queued,waiting,held")}>
          <strong>{count(queue.queued)}</strong> waiting
        </a>
        <a class="queue-count" href={search("running,placed")}>
          <strong class={queue.running ? "running" : ""}>{count(queue.running)}</strong> running
        </a>
        <span class="grow" />
        {mayAdmin.value ? <QueueButtons queue={queue} isOwnPause={props.isOwnPause} /> : null}
      </div>
      <div class="queue-places">
        {queue.places.map((place) => (
          <PlaceRow key={place.worker ?? ""} place={place} />
        ))}
      </div>
      {first.prefix.length || first.cwd || first.wrap ? <Command queue={first} /> : null}
      {props.isOpen ? <HeadJobs queue={queue.name} /> : null}
    </section>
  );
}

/** A queue on one worker: its limits as gauges, or its slots. */
function PlaceRow(props: { place: Queue }) {
  const { place } = props;
  const uses = usesOf(place.limits, place.free);
  return (
    <div class="queue-place">
      <span class="queue-worker">
        {place.worker === null
          ? `offered by no worker${place.labels?.length ? `; needs the label ${place.labels.map(printable).join(", ")}` : ""}`
          : `on ${printable(place.worker)}`}
      </span>
      {uses.map((use) => (
        <Gauge key={use.name} use={use} />
      ))}
      {place.slots.length ? <Slots slots={place.slots} /> : null}
      {!uses.length && !place.slots.length && place.worker !== null ? <span class="faint">no limits</span> : null}
    </div>
  );
}

function Slots(props: { slots: Queue["slots"] }) {
  return (
    <span class="slots">
      <span class="faint">slots</span>
      {props.slots.map((slot) => (
        <span key={slot.name} class={slot.job === null ? "slot" : "slot taken"} title={`gpu ${slot.gpu.join(", ")}`}>
          {slot.name}
          {slot.job === null ? "" : <a href={`/jobs/${slot.job}`}>{slot.job}</a>}
        </span>
      ))}
    </span>
  );
}

function Command(props: { queue: Queue }) {
  const { prefix, cwd, wrap } = props.queue;
  return (
    <div class="queue-command faint">
      {prefix.length || wrap ? (
        <span>
          runs{" "}
          <code>
            {wrap ? `${printable(wrap)} ` : ""}
            {prefix.map((word) => printable(quote(word))).join(" ")} …
          </code>
        </span>
      ) : null}
      {cwd ? (
        <span>
          in <code>{printable(cwd)}</code>
        </span>
      ) : null}
    </div>
  );
}

function QueueButtons(props: { queue: Whole; isOwnPause: boolean }) {
  const { queue } = props;
  const definitions = definitionsOf(queue);
  return (
    <>
      {props.isOwnPause ? (
        <button type="button" onClick={() => void resume(queue.name)}>
          Resume
        </button>
      ) : (
        <button type="button" onClick={() => void pause(queue.name)}>
          Pause
        </button>
      )}
      {definitions.map((place) => (
        <button key={place.worker ?? ""} type="button" class="danger" onClick={() => void remove(queue, place)}>
          {definitions.length > 1 ? `Delete${onWorker(place) || " at the broker"}` : "Delete"}
        </button>
      ))}
    </>
  );
}

/** Return the places where a queue is defined and can be deleted: at the broker, which is one for all, and on workers. */
function definitionsOf(queue: Whole): Queue[] {
  const atBroker = queue.places.find((place) => place.at_broker);
  return queue.places.filter((place) => (place.at_broker ? place === atBroker : isDeletable(place)));
}

function onWorker(place: Queue): string {
  return place.at_broker || place.worker === null ? "" : ` on ${printable(place.worker)}`;
}

/** The queue `default` always exists: without limits there is nothing to delete. */
function isDeletable(place: Queue): boolean {
  const isPlain = !Object.keys(place.limits).length && !place.slots.length && !place.prefix.length && !place.cwd;
  return place.name !== "default" || !isPlain;
}

async function remove(queue: Whole, place: Queue): Promise<void> {
  const name = printable(queue.name);
  const where = onWorker(place);
  const unfinished = queue.queued + queue.running;
  const words = unfinished
    ? `${plural(unfinished, "job")} of it: those that run go on, the others wait until there is such a queue again.`
    : "It has no unfinished jobs.";
  if (!(await confirm(`Delete queue ${name}${where}?`, words, "Delete", { danger: true }))) return;
  const body = place.at_broker ? { name: queue.name, at_broker: true } : { name: queue.name, worker: place.worker };
  await attempt(async () => {
    const done = await change("/v1/delete-queue", body);
    return [`Queue ${name} is deleted${where}.`, ...done.notes].join(" ");
  });
}
