/** One device: which jobs hold which part of it, what is free, and what is wrong with it. */

import { useSignal } from "@preact/signals";
import type { Job } from "../../api/types";
import type { Device } from "../../live/live";
import { mayAdmin } from "../../session";
import { Dialog } from "../../ui/dialog";
import { CheckField, FormActions, held } from "../../ui/field";
import { commandLine, plural, printable } from "../../ui/format";
import { amountWords } from "../../ui/gauge";
import { changeDevice, drainDevice, mayDrain } from "../../ui/machine_actions";

function part(amount: number, device: Device): string {
  return `${Math.min(100, (amount / (device.worth || 1)) * 100)}%`;
}

export function DeviceTile(props: { device: Device; jobs: ReadonlyMap<number, Job> }) {
  const { device, jobs } = props;
  const isRemoving = useSignal(false);
  const name = `${device.resource} ${device.id}`;
  return (
    <li class={device.online && !device.drained ? "tile" : "tile stopped"}>
      <div class="tile-head">
        <strong>{printable(name)}</strong>
        {device.leaving ? (
          <span class="flag warn">leaving</span>
        ) : device.drained ? (
          <span class="flag warn">drained</span>
        ) : null}
        {device.online ? null : <span class="flag bad">silent</span>}
        <span class="grow" />
        <span class={device.free > 0 && device.online && !device.drained ? "tile-free" : "faint"}>
          {freeWords(device)}
        </span>
      </div>
      <div class="tile-bar" aria-hidden="true">
        {device.holders.map((holder) => (
          <span key={holder.job} class="tile-held" style={{ width: part(holder.amount, device) }} />
        ))}
        {device.others > 0 ? <span class="tile-others" style={{ width: part(device.others, device) }} /> : null}
      </div>
      <div class="tile-holders">
        {device.holders.map((holder) => (
          <span key={holder.job}>
            <a href={`/jobs/${holder.job}`}>
              {holder.job} <bdi>{nameOf(jobs.get(holder.job))}</bdi>
            </a>
            {holder.amount < device.worth ? <span class="faint"> {+holder.amount.toFixed(2)}</span> : null}
          </span>
        ))}
        {device.others > 0 ? <span class="faint">{+device.others.toFixed(2)} used by others</span> : null}
        {device.holders.length || device.others > 0 ? null : <span class="faint">no job</span>}
      </div>
      {device.vram ? (
        <div class="faint tile-memory">
          {amountWords("vram", device.vram - (device.vram_free ?? 0))} of {amountWords("vram", device.vram)} memory
        </div>
      ) : null}
      {mayAdmin.value && !device.leaving ? (
        <div class="tile-buttons">
          {mayDrain(device) ? (
            <button
              type="button"
              class="quiet"
              aria-label={`${device.drained ? "Undrain" : "Drain"} ${name}`}
              onClick={() => void drainDevice(device)}
            >
              {device.drained ? "Undrain" : "Drain"}
            </button>
          ) : null}
          <button type="button" class="quiet" aria-label={`Remove ${name}`} onClick={() => (isRemoving.value = true)}>
            Remove
          </button>
        </div>
      ) : null}
      {isRemoving.value ? <RemoveDevice device={device} onClose={() => (isRemoving.value = false)} /> : null}
    </li>
  );
}

function nameOf(job: Job | undefined): string {
  return job ? printable(job.name ?? commandLine(job)) : "";
}

function freeWords(device: Device): string {
  if (device.free >= device.worth) return "free";
  return device.free > 0 ? `${+device.free.toFixed(2)} free` : "in use";
}

function RemoveDevice(props: { device: Device; onClose: () => void }) {
  const { device } = props;
  const kills = useSignal(false);
  const jobs = device.holders.length;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (await changeDevice("remove", device, { kill: kills.value })) props.onClose();
  };
  return (
    <Dialog
      title={`Remove ${device.resource} ${printable(device.id)} from ${printable(device.worker)}?`}
      onClose={props.onClose}
    >
      <form onSubmit={submit}>
        <p>
          {jobs
            ? `${plural(jobs, "job")} on it finish first; then the device is gone. No other job starts on it.`
            : "No job is on it, so it is gone at once."}{" "}
          <code>grass device add</code> brings it back.
        </p>
        {jobs ? <CheckField {...held(kills)}>Kill {jobs === 1 ? "its job" : "its jobs"} now</CheckField> : null}
        <FormActions onCancel={props.onClose} submit={kills.value ? "Kill and remove" : "Remove"} isDanger />
      </form>
    </Dialog>
  );
}
