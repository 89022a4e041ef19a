/** What can be done with one job, by its state and by what the session may. */

import { useSignal } from "@preact/signals";
import { change, get } from "../../api/client";
import { FINAL, type Job } from "../../api/types";
import { go } from "../../router";
import { mayAdmin, mayChange, maySubmit } from "../../session";
import { commandLine } from "../../ui/format";
import { ACTIONS, type Action, actOnJobs, oneJob } from "../../ui/job_actions";
import { Menu, MenuItem } from "../../ui/menu";
import { Text } from "../../ui/parts";
import { attempt } from "../../ui/toast";
import type { JobDetails } from "./details";
import { EditDialog } from "./edit";

const WAITING = ["held", "waiting", "queued"];

/** The actions that are in the menu and have no button. */
const IN_MENU: readonly Action[] = ["priority", "clean", "cleanKeepingLogs"];

/** Return the actions that make sense in a state; the first ones are buttons, the others are in a menu. */
export function actionsOf(job: Job): Action[] {
  if (FINAL.has(job.state)) return ["rerun", "cleanKeepingLogs", "clean"];
  if (!WAITING.includes(job.state)) return ["kill"];
  return [job.state === "held" ? "release" : "hold", "kill", "priority"];
}

export async function run(action: Action, job: Job): Promise<void> {
  const done = await actOnJobs(action, oneJob(job.id));
  if (done && ACTIONS[action].body.action === "clean") go("/jobs");
}

export function JobActions(props: { job: Job; details: JobDetails | null }) {
  const { job, details } = props;
  const isEditing = useSignal(false);
  const isWaiting = WAITING.includes(job.state);
  const isEnded = FINAL.has(job.state);
  const may = mayChange(job);
  return (
    <div class="job-actions">
      {may ? (
        <>
          {actionsOf(job)
            .filter((action) => !IN_MENU.includes(action))
            .map((action) => (
              <button
                key={action}
                type="button"
                class={ACTIONS[action].isDanger ? "danger" : undefined}
                onClick={() => void run(action, job)}
              >
                {ACTIONS[action].title}
              </button>
            ))}
          {isWaiting && details?.editable ? (
            <button
              type="button"
              onClick={() => {
                isEditing.value = true;
              }}
            >
              Edit
            </button>
          ) : null}
          {isEnded ? (
            <a class="button" href={`/new?from=${job.id}`}>
              Rerun with edits
            </a>
          ) : null}
        </>
      ) : maySubmit.value && details ? (
        <span class="faint">
          by <Text>{details.by}</Text>; this session changes its own jobs only
        </span>
      ) : null}
      <Menu label="More" end>
        <ul class="menu-list">
          {may && isWaiting ? (
            <>
              {mayAdmin.value ? <MenuItem words="Move to the front" act={() => void move(job, "first")} /> : null}
              <MenuItem words="Move to the end" act={() => void move(job, "last")} />
              <MenuItem words="Change the priority" act={() => void run("priority", job)} />
            </>
          ) : null}
          {may && job.state === "running" ? <Suspension job={job} /> : null}
          {maySubmit.value && !(may && isEnded) ? (
            <li>
              <a href={`/new?from=${job.id}`}>Submit another like it</a>
            </li>
          ) : null}
          <MenuItem words="Copy the command" act={() => void navigator.clipboard?.writeText(commandLine(job))} />
          <MenuItem words="Copy as a command line" act={() => void copyLine(job.id)} />
          <MenuItem words="Copy the link" act={() => void navigator.clipboard?.writeText(location.href)} />
          {may && isEnded ? (
            <>
              <MenuItem words="Remove the job, keep its logs" act={() => void run("cleanKeepingLogs", job)} />
              <MenuItem words="Remove the job and its files" act={() => void run("clean", job)} />
            </>
          ) : null}
        </ul>
      </Menu>
      {isEditing.value && details?.editable ? (
        <EditDialog
          id={job.id}
          editable={details.editable}
          onClose={() => {
            isEditing.value = false;
          }}
        />
      ) : null}
    </div>
  );
}

export function copyLine(id: number): Promise<boolean> {
  return attempt(async () => {
    const { command_line } = await get(`/v1/jobs/${id}/submission`);
    await navigator.clipboard.writeText(command_line);
    return "copied: it submits the same job in a terminal";
  });
}

/** Stop the processes of a running job, or let them go on. */
function Suspension(props: { job: Job }) {
  const { job } = props;
  if (job.suspended) return <MenuItem words="Resume" act={() => void suspend(job, "resume")} />;
  return (
    <>
      <MenuItem words="Suspend" act={() => void suspend(job, "suspend")} />
      <MenuItem words="Suspend and free its devices" act={() => void suspend(job, "suspend", true)} />
    </>
  );
}

function suspend(job: Job, verb: "suspend" | "resume", free = false): Promise<boolean> {
  return attempt(async () => {
    const { notes } = await change(`/v1/jobs/${verb}`, { selectors: [String(job.id)], ...(free ? { free } : {}) });
    const told = verb === "resume" ? "go on" : "stop";
    return [`job ${job.id} is told to ${told}`, ...notes].join("; ");
  });
}

function move(job: Job, where: "first" | "last"): Promise<boolean> {
  return attempt(async () => {
    await change("/v1/jobs/move", { selectors: [String(job.id)], where });
    return `job ${job.id} is ${where === "first" ? "at the front of" : "at the end of"} its line`;
  });
}
