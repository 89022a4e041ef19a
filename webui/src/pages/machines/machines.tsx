/** The screen Machines: every worker with what it has and does, its devices, and the machines over ssh. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "../../api/client";
import type { Schemas, Worker } from "../../api/types";
import { type Device, devices, workers } from "../../live/live";
import { isAtHome, mayAdmin } from "../../session";
import { clock, duration, plural, printable } from "../../ui/format";
import { Gauge, usesOf } from "../../ui/gauge";
import { now, useAnswer, useMoves, useWish } from "../../ui/hooks";
import { useJobs } from "../../ui/jobs";
import { drainWorker } from "../../ui/machine_actions";
import { Empty } from "../../ui/parts";
import { AddDevices } from "./add_devices";
import { AddMachine } from "./add_machine";
import { DeviceTile } from "./device_tile";
import "./machines.css";
import { RemoveWorker } from "./remove_worker";
import { type SshMachine, SshNote } from "./ssh_machines";

/** How often the machines over ssh are asked for at most. */
const ASK_MS = 5_000;

type Opened = { kind: "device" | "remove"; worker: Worker } | { kind: "machine" } | null;

export default function Machines() {
  useWish({ workers: true, devices: true });
  const opened = useSignal<Opened>(null);
  const turn = useMoves(ASK_MS);
  const ssh = useAnswer<Schemas["Machines"]>(isAtHome.value ? String(turn) : null, (signal) =>
    get("/v1/machines", {}, signal),
  );
  useEffect(() => {
    document.title = "Machines · Grass";
  }, []);
  const close = () => {
    opened.value = null;
  };
  const all = workers.value;
  const machines = ssh.value?.machines ?? [];
  // A machine over ssh that was never connected is no worker yet.
  const alone = machines.filter((machine) => !all?.some((worker) => worker.name === machine.name));
  return (
    <div class="machines">
      <div class="bar">
        <h1>Machines</h1>
        {all ? <Summary workers={all} /> : null}
        <span class="grow" />
        {mayAdmin.value ? (
          <button type="button" onClick={() => (opened.value = { kind: "machine" })}>
            Add a machine
          </button>
        ) : null}
      </div>
      {all && !all.length ? <Empty>No worker has connected yet.</Empty> : null}
      {all?.map((worker) => (
        <WorkerPanel
          key={worker.name}
          worker={worker}
          ssh={machines.find((machine) => machine.name === worker.name)}
          onOpen={(kind) => {
            opened.value = { kind, worker };
          }}
        />
      ))}
      {alone.map((machine) => (
        <section key={machine.name} class="panel worker offline" aria-label={`Machine ${printable(machine.name)}`}>
          <div class="worker-head">
            <h2>{printable(machine.name)}</h2>
          </div>
          <SshNote machine={machine} />
        </section>
      ))}
      {opened.value?.kind === "device" ? <AddDevices worker={opened.value.worker} onClose={close} /> : null}
      {opened.value?.kind === "remove" ? (
        <RemoveWorker
          worker={opened.value.worker}
          isSsh={machines.some(
            (each) => opened.value && "worker" in opened.value && each.name === opened.value.worker.name,
          )}
          onClose={close}
        />
      ) : null}
      {opened.value?.kind === "machine" ? <AddMachine onClose={close} /> : null}
    </div>
  );
}

function Summary(props: { workers: readonly Worker[] }) {
  const silent = props.workers.filter((worker) => !worker.online).length;
  const all = devices.value ?? [];
  const free = all.filter((device) => device.online && !device.drained && device.free >= device.worth).length;
  return (
    <span class="faint">
      {plural(props.workers.length, "worker")}
      {silent ? `, ${silent} silent` : ""}
      {all.length ? ` · ${plural(all.length, "device")}, ${free} free` : ""}
    </span>
  );
}

function WorkerPanel(props: {
  worker: Worker;
  ssh: SshMachine | undefined;
  onOpen: (kind: "device" | "remove") => void;
}) {
  const { worker } = props;
  const own = (devices.value ?? []).filter((device) => device.worker === worker.name);
  const pools = usesOf(worker.capacity, worker.free, worker.used_by_others ?? null).filter(
    (use) => typeof worker.capacity[use.name] === "number",
  );
  return (
    <section
      class={worker.online ? "panel worker" : "panel worker offline"}
      aria-label={`Worker ${printable(worker.name)}`}
    >
      <div class="worker-head">
        <h2>{printable(worker.name)}</h2>
        <Status worker={worker} />
        {worker.drained ? <span class="flag warn">drained</span> : null}
        {worker.labels.map((label) => (
          <span key={label} class="label">
            {printable(label)}
          </span>
        ))}
        <a
          class="faint worker-jobs"
          href={`/jobs?q=${encodeURIComponent(`state:running,placed worker:${worker.name}`)}`}
        >
          {plural(worker.jobs, "job")}
        </a>
        <span class="faint">version {printable(worker.version ?? "")}</span>
        <span class="grow" />
        {mayAdmin.value ? (
          <span class="worker-buttons">
            <button type="button" onClick={() => void drainWorker(worker)}>
              {worker.drained ? "Undrain" : "Drain"}
            </button>
            <button type="button" onClick={() => props.onOpen("device")}>
              Add devices
            </button>
            <button type="button" class="danger" onClick={() => props.onOpen("remove")}>
              Remove
            </button>
          </span>
        ) : null}
      </div>
      {worker.disk_short?.text ? <p class="note">{printable(worker.disk_short.text)}</p> : null}
      {props.ssh ? <SshNote machine={props.ssh} /> : null}
      {pools.length ? (
        <div class="worker-pools">
          {pools.map((use) => (
            <Gauge key={use.name} use={use} />
          ))}
        </div>
      ) : null}
      <Devices devices={own} isDetecting={worker.detecting ?? false} />
    </section>
  );
}

function Devices(props: { devices: readonly Device[]; isDetecting: boolean }) {
  const jobs = useJobs(props.devices.flatMap((device) => device.holders.map((holder) => holder.job)));
  if (!props.devices.length)
    return (
      <p class="faint worker-none">{props.isDetecting ? "It still looks for its devices." : "It has no devices."}</p>
    );
  return (
    <ul class="tiles">
      {props.devices.map((device) => (
        <DeviceTile key={`${device.resource} ${device.id}`} device={device} jobs={jobs} />
      ))}
    </ul>
  );
}

function Status(props: { worker: Worker }) {
  const { worker } = props;
  if (worker.online)
    return (
      <span class="status online" title={worker.since ? `since ${clock(worker.since)}` : undefined}>
        <span aria-hidden="true" class="dot" />
        online
      </span>
    );
  const seconds = worker.since ? (now.value - Date.parse(worker.since)) / 1000 : (worker.silent_s ?? 0);
  return (
    <span class="status silent">
      <span aria-hidden="true" class="dot" />
      silent for {duration(seconds)}
      {worker.since ? `, last heard ${clock(worker.since)}` : ""}
    </span>
  );
}
