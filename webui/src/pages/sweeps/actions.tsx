/** What can be done with a whole sweep: it is the sweep that is named, so jobs that are added meanwhile count too. */

import { change } from "../../api/client";
import { confirm } from "../../ui/dialog";
import { plural } from "../../ui/format";
import { ACTIONS, type Action, actOnJobs } from "../../ui/job_actions";
import { Menu, MenuItem } from "../../ui/menu";
import { attempt } from "../../ui/toast";
import { queryOf, type Sweep } from "./data";

export function SweepActions(props: { sweep: Sweep }) {
  const { sweep } = props;
  const words = sweep.id === null ? `the jobs called ${sweep.name}` : `sweep:${sweep.id}`;
  const act = (action: Action) => void actOnJobs(action, { q: queryOf(sweep, sweep.name), words });
  const more: readonly Action[] = ["release", "priority", "rerun", "clean"];
  return (
    <>
      <button type="button" onClick={() => act("hold")}>
        {ACTIONS.hold.title}
      </button>
      <button type="button" class="danger" onClick={() => act("kill")}>
        {ACTIONS.kill.title}
      </button>
      <Menu label="More" end>
        <ul class="menu-list">
          <MenuItem words="Suspend" act={() => void suspend(sweep, words, "suspend")} />
          <MenuItem words="Suspend and free its devices" act={() => void suspend(sweep, words, "suspend", true)} />
          <MenuItem words="Resume" act={() => void suspend(sweep, words, "resume")} />
          {more.map((action) => (
            <MenuItem key={action} words={ACTIONS[action].title} act={() => act(action)} />
          ))}
        </ul>
      </Menu>
    </>
  );
}

/** Stop the processes of the running jobs of a sweep, or let them go on. */
async function suspend(sweep: Sweep, words: string, verb: "suspend" | "resume", free = false): Promise<void> {
  const text = "The processes of its running jobs are stopped until they are resumed. Device memory stays taken.";
  if (verb === "suspend" && !(await confirm(`Suspend ${words}?`, text, "Suspend"))) return;
  const selector = sweep.id === null ? `name:${sweep.name}` : `sweep:${sweep.id}`;
  await attempt(async () => {
    const done = await change(`/v1/jobs/${verb}`, { selectors: [selector], ...(free ? { free } : {}) });
    const told = verb === "resume" ? "go on" : "stop";
    return [`${plural(done.ids.length, "job")} of ${words} told to ${told}`, ...done.notes].join("; ");
  });
}
