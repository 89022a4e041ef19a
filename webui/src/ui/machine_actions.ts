/** Drain and undrain: of a worker, or of one device. What is drained finishes its jobs and gets no more. */

import { change } from "../api/client";
import type { Worker } from "../api/types";
import { type Device, workers } from "../live/live";
import { confirm } from "./dialog";
import { plural, printable } from "./format";
import { attempt } from "./toast";

const UNTIL = "It gets no more jobs until somebody undrains it.";

/** Return a device in words. */
export function deviceName(device: Device): string {
  return `${printable(device.resource)} ${printable(device.id)} on ${printable(device.worker)}`;
}

/** Tell whether a device can be drained or undrained: one that leaves, or whose whole worker is drained, cannot. */
export function mayDrain(device: Device): boolean {
  return !device.leaving && !workers.value?.some((worker) => worker.name === device.worker && worker.drained);
}

/** Drain a worker after a question, or let a drained one work again. */
export async function drainWorker(worker: Worker): Promise<void> {
  const jobs = worker.jobs ? `Its ${plural(worker.jobs, "job")} go on.` : "It runs no job now.";
  if (!worker.drained && !(await confirm(`Drain ${printable(worker.name)}?`, `${jobs} ${UNTIL}`, "Drain"))) return;
  await attempt(async () => {
    const done = await change("/v1/drain", { worker: worker.name, undo: worker.drained });
    return done.notes.join(" ") || undefined;
  });
}

/** Drain a device after a question, or let a drained one be used again. */
export async function drainDevice(device: Device): Promise<void> {
  const held = device.holders.length ? ` ${plural(device.holders.length, "job")} on it finish first.` : "";
  if (!device.drained && !(await confirm(`Drain ${deviceName(device)}?`, `${UNTIL}${held}`, "Drain"))) return;
  await changeDevice(device.drained ? "undrain" : "drain", device);
}

/** Send a change of one device; return whether it was done. */
export function changeDevice(
  verb: "drain" | "undrain" | "remove",
  device: Device,
  more: Record<string, unknown> = {},
): Promise<boolean> {
  return attempt(async () => {
    const body = { ids: [device.id], worker: device.worker, resource: device.resource, ...more };
    const done = await change(`/v1/devices/${verb}`, body);
    return done.notes.join(" ") || undefined;
  });
}
