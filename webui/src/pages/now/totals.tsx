/** The strip of totals: what runs, what waits, what failed, what is free, and what starts next. */

import type { ComponentChildren } from "preact";
import { get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { devices, totals } from "../../live/live";
import { count } from "../../ui/format";
import { now, useAnswer, useMoves } from "../../ui/hooks";
import { about, type EtaAnswer } from "./eta";

/** How often the failures of the last day are counted at most. */
const COUNT_MS = 2_000;
const FAILED = "state:failed since:1d";

function Figure(props: { words: string; href?: string; tone?: string; title?: string; children: ComponentChildren }) {
  const inner = (
    <>
      <span class={`figure-value ${props.tone ?? ""}`}>{props.children}</span>
      <span class="figure-words">{props.words}</span>
    </>
  );
  return props.href ? (
    <a class="figure" href={props.href} title={props.title}>
      {inner}
    </a>
  ) : (
    <div class="figure" title={props.title}>
      {inner}
    </div>
  );
}

export function Strip(props: { eta: EtaAnswer | null }) {
  const all = totals.value;
  const turn = useMoves(COUNT_MS);
  const failed = useAnswer<Schemas["Counts"]>(`${turn}`, (signal) => get("/v1/jobs/counts", { q: FAILED }, signal));
  const running = (all?.running ?? 0) + (all?.placed ?? 0);
  const waiting = (all?.queued ?? 0) + (all?.waiting ?? 0);
  const held = all?.held ?? 0;
  const next = props.eta?.jobs.find((job) => job.state === "queued" && job.starts);
  const expected = next?.starts ? about(next.starts, now.value) : null;
  return (
    <div class="strip panel">
      <Figure words="running" href="/jobs?q=state:running,placed" tone={running ? "running" : ""}>
        {all ? count(running) : "–"}
      </Figure>
      <Figure words={held ? `waiting, ${count(held)} held` : "waiting"} href="/jobs?q=state:queued,waiting,held">
        {all ? count(waiting) : "–"}
      </Figure>
      <Figure
        words="failed in 24 h"
        href={`/jobs?q=${encodeURIComponent(FAILED)}`}
        tone={failed.value?.count ? "failed" : ""}
      >
        {failed.value ? count(failed.value.count) : "–"}
      </Figure>
      <Free />
      {next && expected ? (
        <Figure words={`next: job ${next.id}`} href={`/jobs/${next.id}`} title={`Starts ${expected.long}`}>
          {expected.short}
        </Figure>
      ) : (
        <Figure words="next start">{waiting ? "unknown" : "–"}</Figure>
      )}
    </div>
  );
}

/** How many devices are wholly free of those that take jobs. */
function Free() {
  const usable = devices.value?.filter((device) => device.online && !device.drained) ?? null;
  if (usable && !usable.length) return null;
  const free = usable?.filter((device) => device.free >= device.worth).length ?? 0;
  return (
    <Figure words="devices free" href="/machines" tone={free ? "succeeded" : ""}>
      {usable ? (
        <>
          {free}
          <span class="faint"> / {usable.length}</span>
        </>
      ) : (
        "–"
      )}
    </Figure>
  );
}
