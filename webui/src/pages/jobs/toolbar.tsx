/** The query, the states with their counts, the views, and the choice of columns. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../../api/client";
import { type Schemas, STATES, type State, type Totals } from "../../api/types";
import { totals } from "../../live/live";
import { search, setQuery } from "../../router";
import { confirm } from "../../ui/dialog";
import { count } from "../../ui/format";
import { useAnswer, useMoves } from "../../ui/hooks";
import { Menu } from "../../ui/menu";
import { Problem, StateMark } from "../../ui/parts";
import { say } from "../../ui/toast";
import { COLUMNS, chosenColumns, shownColumns } from "./columns";
import { statesOf, toggleState, withStates } from "./query";
import { BUILT_IN, forgetView, NAME_MAX, saveView, views } from "./views";

/** The query is asked this long after the last key. */
const TYPED_MS = 200;
/** Counts of a query are asked again at most this often while jobs change. */
const COUNTS_MS = 1_000;

export function QueryBar(props: { q: string; error: string | null; hasProject: boolean }) {
  const typed = useSignal(props.q);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const given = useRef(props.q);
  // The address may change by a chip, a view or the history.
  useEffect(() => {
    if (props.q === given.current) return;
    given.current = props.q;
    typed.value = props.q;
  }, [props.q, typed]);
  const apply = () => {
    clearTimeout(timer.current);
    given.current = typed.value.trim();
    setQuery({ q: given.current });
  };
  return (
    <>
      <form
        class="bar query"
        onSubmit={(event) => {
          event.preventDefault();
          apply();
        }}
      >
        <input
          id="query"
          class="grow"
          type="search"
          placeholder="Search: words, state:failed, queue:q, gpu>0, since:2d, name:lr*"
          aria-label="Search jobs"
          aria-invalid={props.error !== null}
          aria-describedby={props.error ? "query-problem" : undefined}
          autocomplete="off"
          spellcheck={false}
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
            clearTimeout(timer.current);
            timer.current = setTimeout(apply, TYPED_MS);
          }}
          onKeyDown={(event) => {
            if (event.key === "Escape" || event.key === "ArrowDown") {
              event.preventDefault();
              document.querySelector<HTMLElement>(".grid")?.focus();
            }
          }}
        />
        <ViewMenu />
        <ColumnMenu hasProject={props.hasProject} />
      </form>
      {props.error ? (
        <div id="query-problem">
          <Problem words={props.error} />
        </div>
      ) : null}
    </>
  );
}

export function StateChips(props: { q: string; hasError: boolean }) {
  const chosen = statesOf(props.q);
  const counts = useCounts(props.q, props.hasError);
  const all = counts ? Object.values(counts).reduce((sum, each) => sum + each, 0) : null;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for a form
    <div class="chips" role="group" aria-label="States">
      <button type="button" class="chip" aria-pressed={chosen.length === 0} onClick={() => setStates(props.q, [])}>
        all {all === null ? null : <span class="chip-count">{count(all)}</span>}
      </button>
      {STATES.filter((state) => counts?.[state] || chosen.includes(state)).map((state) => (
        <button
          key={state}
          type="button"
          class="chip"
          aria-pressed={chosen.includes(state)}
          onClick={() => setQuery({ q: toggleState(props.q, state) })}
        >
          <StateMark state={state} /> <span class="chip-count">{count(counts?.[state] ?? 0)}</span>
        </button>
      ))}
    </div>
  );
}

function setStates(q: string, states: readonly State[]): void {
  setQuery({ q: withStates(q, states) });
}

/** Return the jobs by state that match a query without its states. */
function useCounts(q: string, hasError: boolean): Totals | null {
  const rest = withStates(q, []);
  const turn = useMoves(COUNTS_MS);
  const asked = useAnswer<Schemas["Counts"]>(rest && !hasError ? `${rest}\n${turn}` : null, (signal) =>
    get("/v1/jobs/counts", { q: rest }, signal),
  );
  return rest ? (asked.value?.states ?? null) : totals.value;
}

function ViewMenu() {
  const here = search.value.replace(/^\?/, "");
  const name = useSignal("");
  const own = views.value;
  const known = [...BUILT_IN, ...own].find((view) => view.search === here);
  const save = (event: Event) => {
    event.preventDefault();
    if (!name.value.trim()) return;
    saveView(name.value.trim(), here);
    name.value = "";
  };
  return (
    <Menu label={known?.name ?? "Views"} title="Views: a query and an order by a name" end>
      <ul class="menu-list">
        {BUILT_IN.map((view) => (
          <li key={view.name}>
            <ViewLink name={view.name} search={view.search} here={here} />
          </li>
        ))}
        {own.map((view) => (
          <li key={`own ${view.name}`}>
            <ViewLink name={view.name} search={view.search} here={here} />
            <button
              type="button"
              class="quiet"
              aria-label={`Forget the view ${view.name}`}
              onClick={() => void forget(view.name)}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      <form class="menu-form" onSubmit={save}>
        <input
          aria-label="Name of this view"
          placeholder="Name this view"
          maxLength={NAME_MAX}
          value={name.value}
          onInput={(event) => {
            name.value = event.currentTarget.value;
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") save(event);
          }}
        />
        <button type="button" disabled={!name.value.trim()} onClick={save}>
          Save
        </button>
      </form>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          void navigator.clipboard?.writeText(location.href);
          say("the link to this view is copied");
        }}
      >
        Copy the link to this view
      </button>
    </Menu>
  );
}

function ViewLink(props: { name: string; search: string; here: string }) {
  return (
    <a
      href={`/jobs${props.search ? `?${props.search}` : ""}`}
      aria-current={props.search === props.here ? "true" : undefined}
    >
      <bdi>{props.name}</bdi>
    </a>
  );
}

async function forget(name: string): Promise<void> {
  if (await confirm("Forget a view", `The view ${name} is forgotten in this browser. No job changes.`, "Forget"))
    forgetView(name);
}

function ColumnMenu(props: { hasProject: boolean }) {
  const shown = shownColumns(chosenColumns.value, props.hasProject).map((column) => column.id);
  return (
    <Menu label="Columns" title="Choose the columns" end>
      <div class="menu-checks">
        {COLUMNS.map((column) => (
          <label key={column.id}>
            <input
              type="checkbox"
              checked={shown.includes(column.id)}
              disabled={column.id === "id"}
              onChange={(event) => {
                chosenColumns.value = event.currentTarget.checked
                  ? [...shown, column.id]
                  : shown.filter((each) => each !== column.id);
              }}
            />
            {column.title}
          </label>
        ))}
      </div>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          chosenColumns.value = null;
        }}
      >
        The usual columns
      </button>
    </Menu>
  );
}
