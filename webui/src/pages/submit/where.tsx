/** Where and when a job would run if it were submitted now: the daemon's own plan, asked while people type. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { newKey, post } from "../../api/client";
import type { Schemas } from "../../api/types";
import { clock, duration, where } from "../../ui/format";
import { useAnswer } from "../../ui/hooks";
import { Text } from "../../ui/parts";

/** The daemon is asked when nothing was typed for this long. */
const PAUSE_MS = 350;
/** A start within this many seconds is now. */
const NOW_S = 2;

type WhatIf = Schemas["ImaginedJob"];

export function Where(props: { words: readonly string[] | null; cwd: string }) {
  const settled = useSignal<string | null>(null);
  const text = props.words ? JSON.stringify([props.words, props.cwd]) : null;
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = text;
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, settled]);
  const found = useAnswer<WhatIf>(settled.value, () => {
    const [words] = JSON.parse(settled.value ?? "[[]]") as [string[]];
    return post("/v1/what-if", { words, key: newKey() });
  });
  if (!settled.value) return <p class="faint">Type a command, and this says where it would run.</p>;
  if (found.error) return <p class="refused-preview">{found.error}</p>;
  if (!found.value) return <p class="faint">Asking the daemon…</p>;
  const { job, warnings, now } = found.value;
  return (
    <div class={found.loading ? "asking" : ""}>
      <p>{sentence(job, now)}</p>
      {warnings.map((words) => (
        <p key={words} class="note">
          <Text>{words}</Text>
        </p>
      ))}
    </div>
  );
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function sentence(job: WhatIf["job"], now: string): string {
  const place = [where(job.allocation), job.worker ? `on ${job.worker}` : ""].filter(Boolean).join(" ");
  if (!job.starts) return `${capital(job.reason ?? "it is not known when it would start")}.`;
  const wait = (Date.parse(job.starts.likely) - Date.parse(now)) / 1000;
  const start =
    wait <= NOW_S
      ? `It would start now${place ? `: ${place}` : ""}.`
      : `It would wait about ${duration(wait)}, until ${clock(job.starts.likely)}${place ? `: ${place}` : ""}.`;
  const end = job.ends
    ? ` It would end about ${clock(job.ends.likely)}, by ${job.n} like it.`
    : ` ${capital(job.reason ?? "its end is not known")}.`;
  return start + end;
}
