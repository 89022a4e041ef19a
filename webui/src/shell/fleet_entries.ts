/** What the palette offers for queues, workers and devices, to a session that may do it. */

import { devices, paused, queues, workers } from "../live/live";
import { mayAdmin } from "../session";
import { printable } from "../ui/format";
import { deviceName, drainDevice, drainWorker, mayDrain } from "../ui/machine_actions";
import { EVERYTHING, pause, resume } from "../ui/queue_actions";
import type { Entry } from "./palette";

/** Return every such entry, as things are now. */
export function fleetEntries(): Entry[] {
  if (!mayAdmin.value) return [];
  return [...queueEntries(), ...workerEntries(), ...deviceEntries()];
}

function queueEntries(): Entry[] {
  const names = [...new Set((queues.value ?? []).map((queue) => queue.name))].sort();
  return [null, ...names].map((name) => {
    const isPaused = paused.value.has(name ?? EVERYTHING);
    const what = name === null ? "everything" : `queue ${printable(name)}`;
    return {
      key: `queue ${name ?? EVERYTHING}`,
      words: `${isPaused ? "Resume" : "Pause"} ${what}`,
      hint: isPaused ? "paused" : "",
      act: () => void (isPaused ? resume(name) : pause(name)),
    };
  });
}

function workerEntries(): Entry[] {
  return (workers.value ?? []).map((worker) => ({
    key: `worker ${worker.name}`,
    words: `${worker.drained ? "Undrain" : "Drain"} worker ${printable(worker.name)}`,
    hint: worker.drained ? "drained" : "",
    act: () => void drainWorker(worker),
  }));
}

function deviceEntries(): Entry[] {
  return (devices.value ?? []).filter(mayDrain).map((device) => ({
    key: `device ${device.worker} ${device.resource} ${device.id}`,
    words: `${device.drained ? "Undrain" : "Drain"} ${deviceName(device)}`,
    hint: device.drained ? "drained" : "",
    act: () => void drainDevice(device),
  }));
}
