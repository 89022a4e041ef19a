/** The palette (Ctrl-K): pages, actions of this screen, queues and machines, and jobs by id or name. */

import { signal, useComputed, useSignal } from "@preact/signals";
import { get } from "../api/client";
import type { Job, Schemas } from "../api/types";
import { allShortcuts } from "../keys";
import { PLACES } from "../pages/routes";
import { go } from "../router";
import { mayAdmin, maySubmit } from "../session";
import { Dialog } from "../ui/dialog";
import { commandLine, printable } from "../ui/format";
import { useAnswer, useWish } from "../ui/hooks";
import { fleetEntries } from "./fleet_entries";

/** Jobs offered at once. */
const JOBS_OFFERED = 8;
/** Queues, workers and devices offered at once. */
const FLEET_OFFERED = 20;

const open = signal(false);

export function openPalette(): void {
  open.value = true;
}

export interface Entry {
  key: string;
  words: string;
  hint: string;
  act: () => void;
}

export function Palette() {
  return open.value ? <OpenPalette /> : null;
}

function OpenPalette() {
  const typed = useSignal("");
  const chosen = useSignal(0);
  const text = typed.value.trim();
  const found = useAnswer<Schemas["Window"]>(text || null, (signal) =>
    get("/v1/jobs/window", { q: /^\d+$/.test(text) ? `id:${text}` : text, count: JOBS_OFFERED }, signal),
  );
  useWish(mayAdmin.value ? { queues: true, workers: true, devices: true } : {});
  const fixed = useComputed(() => matching(typed.value));
  const jobs = text && found.value ? found.value.jobs.map(jobEntry) : [];
  const entries = [...fixed.value, ...jobs];
  const close = () => {
    open.value = false;
  };
  const run = (entry: Entry | undefined) => {
    close();
    entry?.act();
  };
  const at = Math.min(chosen.value, Math.max(0, entries.length - 1));
  return (
    <Dialog title="Go to, or do" onClose={close}>
      <input
        class="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={entries[at] ? `palette-${at}` : undefined}
        aria-label="A page, an action, or a job"
        placeholder="A page, an action, or a job by id, name or command"
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          chosen.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") chosen.value = Math.min(at + 1, entries.length - 1);
          else if (event.key === "ArrowUp") chosen.value = Math.max(at - 1, 0);
          else if (event.key === "Enter") run(entries[at]);
          else return;
          event.preventDefault();
        }}
      />
      <div id="palette-list" class="palette-list" role="listbox" aria-label="Found">
        {entries.map((entry, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input above has the keys
          <div
            key={entry.key}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === at}
            tabIndex={-1}
            onClick={() => run(entry)}
          >
            <bdi>{entry.words}</bdi>
            <span class="faint">{entry.hint}</span>
          </div>
        ))}
      </div>
    </Dialog>
  );
}

/** Return the entries that have every typed word; what changes queues and machines only if something is typed. */
function matching(text: string): Entry[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const isWanted = (entry: Entry) => wanted.every((word) => entry.words.toLowerCase().includes(word));
  const places = PLACES.filter((place) => (!place.admin || mayAdmin.value) && (!place.submit || maySubmit.value)).map(
    (place) => ({ key: place.address, words: place.words, hint: place.keys, act: () => go(place.address) }),
  );
  const actions = allShortcuts()
    .filter((each) => !each.keys.startsWith("g ") && each.keys !== "Ctrl-K")
    .map((each) => ({ key: each.keys, words: each.words, hint: each.keys, act: each.act }));
  const fleet = wanted.length ? fleetEntries().filter(isWanted).slice(0, FLEET_OFFERED) : [];
  return [...[...places, ...actions].filter(isWanted), ...fleet];
}

function jobEntry(job: Job): Entry {
  const line = printable(commandLine(job)).slice(0, 60);
  return {
    key: `job ${job.id}`,
    words: `${job.id} ${printable(job.name ?? "")} ${line}`,
    hint: job.state,
    act: () => go(`/jobs/${job.id}`),
  };
}
