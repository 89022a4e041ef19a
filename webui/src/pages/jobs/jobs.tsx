/** The screen Jobs: every job that matches a query, and what can be done with them. */

import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import { addShortcuts } from "../../keys";
import { onJobs, totals } from "../../live/live";
import { query } from "../../router";
import { mayAdmin, mayChange, maySubmit } from "../../session";
import { FirstCommands } from "../../ui/first_commands";
import { count, plural } from "../../ui/format";
import { onMoves, useWish } from "../../ui/hooks";
import { ACTIONS, type Action, actOnJobs, type ChosenJobs, oneJob } from "../../ui/job_actions";
import { Empty } from "../../ui/parts";
import { say } from "../../ui/toast";
import { chosenColumns, namesWorkers, shownColumns } from "./columns";
import { Grid } from "./grid";
import { notYours, Table } from "./table";
import { QueryBar, StateChips } from "./toolbar";
import "./jobs.css";

/** The rows that decide which columns are usual. */
const LOOKED_AT = 100;

export default function Jobs() {
  const table = useMemo(() => new Table(), []);
  const q = query.value.get("q") ?? "";
  const sort = query.value.get("sort") ?? "id";
  const order = query.value.get("order") ?? (sort === "id" ? "desc" : "asc");
  // Before the first frame: the rows are asked for while it is drawn.
  useLayoutEffect(() => table.setKey({ q, sort, order }), [table, q, sort, order]);
  useWish({ totals: true, jobs: table.visibleIds.value, look: true });
  useLive(table);
  const ask = async (wanted: Action) => {
    const chosen = maySubmit.value ? chosenJobs(table) : null;
    if (chosen && (await actOnJobs(wanted, chosen))) table.escape();
  };
  useKeys(table, ask);
  const { error, isLoaded, total, isExact } = table.rows.state.value;
  const hasProject = someProject(table);
  return (
    <div class="jobs">
      <h1 class="hidden">Jobs</h1>
      <QueryBar q={q} error={error} hasProject={hasProject} />
      {table.selectedCount.value ? (
        <BulkBar table={table} ask={ask} />
      ) : (
        <div class="bar under">
          <StateChips q={q} hasError={error !== null} />
          <Changes table={table} />
          <span class="faint total" role="status">
            {isLoaded ? `${isExact ? "" : "at least "}${plural(total, "job")}` : ""}
          </span>
        </div>
      )}
      {isLoaded && total === 0 && !error ? (
        <NoJobs q={q} />
      ) : (
        <Grid table={table} columns={shownColumns(chosenColumns.value, hasProject)} />
      )}
    </div>
  );
}

/** Patch rows as jobs change, and ask for the order again when jobs come and go. */
function useLive(table: Table): void {
  useEffect(() => {
    const unheard = [onJobs((changed) => table.rows.patch(changed)), onMoves(() => table.moved())];
    return () => {
      for (const end of unheard) end();
      table.stop();
    };
  }, [table]);
}

function useKeys(table: Table, ask: (action: Action) => Promise<void>): void {
  useEffect(
    () =>
      addShortcuts([
        { keys: "/", words: "Search jobs", act: () => document.getElementById("query")?.focus() },
        { keys: "j", words: "Next job", act: () => table.move(1) },
        { keys: "k", words: "Previous job", act: () => table.move(-1) },
        { keys: "g g", words: "First job", act: () => table.moveTo(0) },
        { keys: "G", words: "Last job", act: () => table.moveTo(Number.MAX_SAFE_INTEGER) },
        { keys: "Enter", words: "Open the job", act: () => void table.openCursor() },
        { keys: "x", words: "Select the job, or not", act: () => table.toggleCursor() },
        { keys: "Escape", words: "Select nothing", act: () => table.escape() },
        ...(maySubmit.value
          ? [
              { keys: "K", words: "Kill the selected jobs", act: () => void ask("kill") },
              { keys: "R", words: "Rerun the selected jobs", act: () => void ask("rerun") },
              { keys: "H", words: "Hold or release the selected jobs", act: () => void ask(holdOrRelease(table)) },
            ]
          : []),
      ]),
    [table],
  );
}

/** Hold, or release where the job under the cursor is held. */
function holdOrRelease(table: Table): Action {
  const job = table.cursor.value === null ? undefined : table.rows.row(table.cursor.value);
  return job?.state === "held" ? "release" : "hold";
}

/** Return the selected jobs, or else the job under the cursor. */
function chosenJobs(table: Table): ChosenJobs | null {
  const selection = table.selection.value;
  const selected = table.selectedCount.value;
  if (selection.kind === "all" && selected)
    return {
      q: selection.q,
      upto: selection.upto,
      except: [...selection.except],
      words: mayAdmin.value ? plural(selected, "job") : `your jobs among ${count(selected)}`,
    };
  if (selection.kind === "some" && selection.ids.size) {
    const [only] = selection.ids;
    return { ids: [...selection.ids], words: selected === 1 ? `job ${only}` : plural(selected, "job") };
  }
  const job = table.cursor.value === null ? undefined : table.rows.row(table.cursor.value);
  if (job && !mayChange(job)) say(notYours(job), true);
  return job && mayChange(job) ? oneJob(job.id) : null;
}

/** Look at some rows: whether they have a project, and whether they ran on several workers. */
function someProject(table: Table): boolean {
  const { total } = table.rows.state.value;
  const workers = new Set<string>();
  let hasProject = false;
  for (let index = 0; index < Math.min(total, LOOKED_AT); index++) {
    const job = table.rows.row(index);
    if (job?.project) hasProject = true;
    if (job?.worker) workers.add(job.worker);
  }
  if (workers.size > 1 && !namesWorkers.value) queueMicrotask(() => (namesWorkers.value = true));
  return hasProject;
}

const BULK: readonly Action[] = ["kill", "rerun", "hold", "release", "priority", "cleanKeepingLogs", "clean"];

function BulkBar(props: { table: Table; ask: (action: Action) => Promise<void> }) {
  const { table } = props;
  const { total } = table.rows.state.value;
  const isAll = table.selection.value.kind === "all";
  return (
    <div class="bar under bulk">
      <strong role="status">
        {plural(table.selectedCount.value, "job")} selected
        {isAll && !mayAdmin.value ? "; only yours are changed" : ""}
      </strong>
      {isAll ? null : (
        <button type="button" class="quiet" onClick={() => void table.selectAll()}>
          Select all {count(total)} that match
        </button>
      )}
      <button type="button" class="quiet" onClick={() => table.escape()}>
        Select none
      </button>
      <Changes table={table} />
      <div class="bulk-actions">
        {BULK.map((action) => (
          <button
            key={action}
            type="button"
            class={ACTIONS[action].isDanger ? "danger" : undefined}
            onClick={() => void props.ask(action)}
          >
            {ACTIONS[action].title}
          </button>
        ))}
      </div>
    </div>
  );
}

/** What came and went while the order of rows is kept. */
function Changes(props: { table: Table }) {
  const changed = props.table.rows.changed.value;
  if (!changed) return null;
  return (
    <button type="button" class="changes" onClick={() => props.table.showChanges()}>
      {count(changed)} changed, refresh
    </button>
  );
}

function NoJobs(props: { q: string }) {
  const all = Object.values(totals.value ?? {}).reduce((sum, each) => sum + each, 0);
  if (props.q || all)
    return (
      <Empty>
        <p>No job matches.</p>
        <p>
          <a href="/jobs">Show all jobs</a>
        </p>
      </Empty>
    );
  return <FirstCommands />;
}
