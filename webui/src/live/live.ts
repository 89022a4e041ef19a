/** The one live connection of this tab: what changed, as signals, and whether the page is up to date. */

import { signal } from "@preact/signals";
import type { Job, Queue, Schemas, Totals, Worker } from "../api/types";
import { Position } from "./position";
import { alreadyHeard, join, type Subscription, type Wish } from "./subscription";

/** What the daemon says when it ends a connection: a wrong message, or too many connections. */
const WRONG_MESSAGE = 4400;
const TOO_MANY = 4429;
/** The page says that it is not live when nothing was heard for this long; the daemon beats every 15 s. */
const SILENT_MS = 35_000;
/** Waits between attempts to connect: the first, and the longest. */
const RETRY_MS = 250;
const RETRY_MAX_MS = 5_000;
/** After so many attempts the waits are the longest. */
const RETRIES_SLOW = 5;

export type Device = Schemas["Device"];

/** A part of a line: its style in words, and its text. */
export type Span = LogLine["spans"][number];

export type LogLine = Schemas["LogLine"];

/** The end of a log as it is now; a frame replaces all lines from the byte `first` on. */
export type LogFrame = Schemas["LiveLog"];

type Frame = Schemas["LiveFrame"];

export type LiveState = "connecting" | "live" | "lost";

/** Whether the page is up to date; `since` is when it stopped to be, `words` why the daemon ended the connection. */
export const state = signal<{ kind: LiveState; since: Date | null; words?: string }>({
  kind: "connecting",
  since: null,
});
export const totals = signal<Totals | null>(null);
export const devices = signal<Device[] | null>(null);
export const queues = signal<Queue[] | null>(null);
/** The queues that are paused, and the user that paused each; an empty name is all queues. */
export const paused = signal<ReadonlyMap<string, string>>(new Map());
export const workers = signal<Worker[] | null>(null);
/** Grows when jobs were added, removed or changed their state: a list then asks for its rows again. */
export const moved = signal(0);
/** Grows when everything must be asked for again. */
export const resets = signal(0);
/** The daemon's version, once it has said one. */
export const version = signal<string | null>(null);

type JobListener = (jobs: ReadonlyMap<number, Job | null>) => void;
type LogListener = (frame: LogFrame) => void;

const wishes = new Set<Wish>();
const jobListeners = new Set<JobListener>();
/** The jobs that some screen wants, as they were heard last: the daemon tells this tab each of them once. */
const heardJobs = new Map<number, Job | null>();
const logListeners = new Set<LogListener>();
const lossListeners = new Set<() => void>();

let socket: WebSocket | null = null;
const position = new Position();
let retry = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let heardAt = 0;
let sent = "";
/** The last subscription of all connections. */
let subscribed: Subscription | null = null;
let sending = false;
let stopped = true;

/** Say what a screen wants to hear; call the answer when the screen goes away. */
export function want(wish: Wish): () => void {
  wishes.add(wish);
  sendSoon();
  return () => {
    wishes.delete(wish);
    sendSoon();
  };
}

/** Hear of jobs; at first of those that this tab knows already, because another part of the screen wants them too. */
export function onJobs(listener: JobListener): () => void {
  jobListeners.add(listener);
  if (heardJobs.size) listener(new Map(heardJobs));
  return () => jobListeners.delete(listener);
}

export function onLog(listener: LogListener): () => void {
  logListeners.add(listener);
  return () => logListeners.delete(listener);
}

/** Hear of a lost connection: the session may have ended. */
export function onLoss(listener: () => void): () => void {
  lossListeners.add(listener);
  return () => lossListeners.delete(listener);
}

/** Connect, and stay connected until `stop`: both belong to one session. */
export function start(): void {
  if (!stopped) return;
  stopped = false;
  document.addEventListener("visibilitychange", checkNow);
  window.addEventListener("online", checkNow);
  connect();
}

export function stop(): void {
  stopped = true;
  clearTimeout(timer);
  document.removeEventListener("visibilitychange", checkNow);
  window.removeEventListener("online", checkNow);
  socket?.close();
  socket = null;
  // The next session may see other jobs, and change others.
  position.forget();
  heardJobs.clear();
  subscribed = null;
  state.value = { kind: "connecting", since: null };
}

function connect(): void {
  clearTimeout(timer);
  if (stopped) return;
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const since = position.heard ? `?since=${encodeURIComponent(position.heard)}` : "";
  const opened = new WebSocket(`${scheme}://${location.host}/v1/live${since}`);
  socket = opened;
  sent = "";
  heardAt = Date.now();
  opened.onopen = () => {
    retry = 0;
    send();
  };
  opened.onmessage = (event) => {
    if (opened === socket && typeof event.data === "string") hear(JSON.parse(event.data) as Frame);
  };
  opened.onclose = (event) => {
    if (opened !== socket) return;
    // Trying again at once would meet the same refusal.
    if (event.code === WRONG_MESSAGE || event.code === TOO_MANY) retry = RETRIES_SLOW;
    lose(event.reason);
  };
  watchSilence(opened);
}

/** A connection that died without a word, as after a sleep of the computer, is noticed by its silence. */
function watchSilence(watched: WebSocket): void {
  const id = setInterval(() => {
    if (watched !== socket) clearInterval(id);
    else if (Date.now() - heardAt > SILENT_MS) {
      clearInterval(id);
      watched.close();
      lose();
    }
  }, 5_000);
}

function lose(words = ""): void {
  socket = null;
  if (state.value.kind !== "lost") state.value = { kind: "lost", since: new Date(heardAt), words };
  if (stopped) return;
  // Each time: the session may have ended while the daemon was away.
  for (const listener of lossListeners) listener();
  const wait = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** retry++);
  clearTimeout(timer);
  timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
}

function checkNow(): void {
  if (document.visibilityState === "hidden" || stopped) return;
  if (!socket) {
    retry = 0;
    connect();
  } else if (Date.now() - heardAt > SILENT_MS) {
    socket.close();
    lose();
  }
}

function hear(frame: Frame): void {
  heardAt = Date.now();
  if (frame.hello) {
    version.value = frame.hello.version;
    if (position.greet(frame.hello.position)) resets.value++;
    // A screen that was opened meanwhile got no answer, or one from before the loss.
    if (state.value.kind === "lost") moved.value++;
    state.value = { kind: "live", since: null };
  }
  if (frame.seq !== undefined) position.reach(frame.seq);
  if (frame.reset) {
    position.reset();
    resets.value++;
  }
  if (frame.totals) totals.value = frame.totals;
  if (frame.devices) devices.value = frame.devices;
  if (frame.queues) queues.value = frame.queues;
  if (frame.paused) paused.value = new Map(Object.entries(frame.paused));
  if (frame.workers) workers.value = frame.workers;
  if (frame.jobs) {
    const changed = new Map(Object.entries(frame.jobs).map(([id, job]) => [Number(id), job]));
    for (const [id, job] of changed) heardJobs.set(id, job);
    for (const listener of jobListeners) listener(changed);
  }
  if (frame.log) for (const listener of logListeners) listener(frame.log);
  if (frame.moved || frame.reset) moved.value++;
}

/** Gather the wishes of one turn of the loop: a screen that replaces another sends one message. */
function sendSoon(): void {
  if (sending) return;
  sending = true;
  queueMicrotask(() => {
    sending = false;
    send();
  });
}

function send(): void {
  if (socket?.readyState !== WebSocket.OPEN) return;
  const joined = join(wishes);
  const wanted = new Set(joined.jobs);
  for (const id of heardJobs.keys()) if (!wanted.has(id)) heardJobs.delete(id);
  // The daemon takes the first message of a connection that goes on for what the tab has already.
  if (!sent && position.heard) tell(socket, alreadyHeard(joined, heardJobs, subscribed));
  tell(socket, joined);
}

function tell(to: WebSocket, subscription: Subscription): void {
  subscribed = subscription;
  const text = JSON.stringify({ sub: subscription });
  if (text === sent) return;
  sent = text;
  to.send(text);
}
