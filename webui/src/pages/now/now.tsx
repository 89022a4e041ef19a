/** The screen Now: what every device does, what starts next, and the live log of one job. */

import { useEffect } from "preact/hooks";
import { totals } from "../../live/live";
import { query, setQuery } from "../../router";
import { FirstCommands } from "../../ui/first_commands";
import { useWish } from "../../ui/hooks";
import { useEta } from "./eta";
import { ChosenJob } from "./job_log";
import { Line } from "./line";
import "./now.css";
import { Timeline } from "./timeline/timeline";
import { Strip } from "./totals";

export default function Now() {
  useWish({ totals: true, devices: true });
  const eta = useEta();
  const asked = Number(query.value.get("job"));
  const running = eta?.jobs.find((job) => job.state === "running" || job.state === "placed");
  const selected = asked > 0 ? asked : (running?.id ?? null);
  const select = (job: number) => setQuery({ job: String(job) });
  useEffect(() => {
    document.title = "Grass";
  }, []);
  const all = totals.value;
  const isEmpty = all !== null && !Object.values(all).some((value) => value > 0);
  return (
    <div class="now">
      <h1 class="hidden">Now</h1>
      <Strip eta={eta} />
      {isEmpty ? <FirstCommands /> : null}
      <div class={isEmpty ? "now-main alone" : "now-main"}>
        <div>
          <Timeline selected={selected} onSelect={select} />
          {selected === null ? (
            isEmpty || !eta ? null : (
              <p class="faint now-hint">
                Nothing runs. A click on a block shows the log of its job here; <a href="/jobs">Jobs</a> has all of
                them.
              </p>
            )
          ) : (
            <ChosenJob key={selected} job={selected} />
          )}
        </div>
        {isEmpty ? null : <Line eta={eta} selected={selected} />}
      </div>
    </div>
  );
}
