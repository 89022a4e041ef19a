/** The screen of one sweep: its parameters and results as a table and as pictures that are joined by brushes. */

import { useComputed, useSignal } from "@preact/signals";
import { get } from "../../api/client";
import { query, setQuery } from "../../router";
import { maySubmit } from "../../session";
import { plural, printable } from "../../ui/format";
import { useAnswer, useMoves } from "../../ui/hooks";
import { Problem, Text } from "../../ui/parts";
import type { ScreenProps } from "../routes";
import { SweepActions } from "./actions";
import { axisOf, type Brushes, brushed, short } from "./axis";
import { BestSoFar } from "./best_so_far";
import { best, isLowerBetter, queryOf, type Sweep, sweepLimits } from "./data";
import { Parallel } from "./parallel";
import { Scatter } from "./scatter";
import { StateBar } from "./state_bar";
import { SweepTable } from "./sweep_table";
import "./sweeps.css";

/** The table is asked for again at most this often. */
const REFRESH_MS = 1_000;

export default function SweepScreen(props: ScreenProps) {
  const name = props.name ?? "";
  const turn = useMoves(REFRESH_MS);
  const found = useAnswer<Sweep>(`${name} ${turn}`, (signal) =>
    get(`/v1/sweeps/${encodeURIComponent(name)}`, {}, signal),
  );
  const sweep = found.value;
  return (
    <>
      <div class="bar">
        <h1 class="grow">
          <a href="/sweeps">Sweeps</a> / <Text>{sweep?.name ?? name}</Text>
        </h1>
        {sweep && maySubmit.value ? <SweepActions sweep={sweep} /> : null}
        <a href={`/jobs?q=${encodeURIComponent(queryOf(sweep, name))}`}>Its jobs</a>
      </div>
      <Problem words={found.error} />
      {sweep ? <SweepView sweep={sweep} /> : found.error ? null : <p class="boot">Loading…</p>}
    </>
  );
}

function SweepView(props: { sweep: Sweep }) {
  const { sweep } = props;
  const brushes = useSignal<Brushes>(new Map());
  const results = sweep.columns.map((column, at) => ({ column, at })).filter(({ column }) => column.kind === "number");
  const wanted = query.value.get("result");
  const target =
    results.find(({ column }) => column.name === wanted) ??
    results.find(({ column }) => column.group === "result") ??
    null;
  const isLower = target
    ? (query.value.get("best") ?? (isLowerBetter(target.column.name) ? "low" : "high")) === "low"
    : false;
  const linear = useSignal<ReadonlySet<string>>(new Set());
  const axes = sweep.columns.map((column, at) =>
    axisOf(column, at, sweep.rows, column.is_log && !linear.value.has(column.name)),
  );
  const held = useComputed(() => brushes.value);
  const kept = brushed(sweep.rows, axes, held.value);
  const rows = sweep.rows.filter((row) => kept.has(row.id));
  const top = target ? best(rows, target.at, isLower) : null;
  return (
    <>
      <div class="panel sweep-head">
        <StateBar counts={sweep.counts} />
        <span>{plural(sweep.count, "job")}</span>
        {sweep.id === null ? null : <span class="faint">{`sweep:${sweep.id}`}</span>}
        <span>{sweep.stopped ? <Text>{sweep.stopped}</Text> : sweepLimits(sweep)}</span>
        {target ? (
          <>
            <label>
              Result{" "}
              <select value={target.column.name} onChange={(event) => setQuery({ result: event.currentTarget.value })}>
                {results.map(({ column }) => (
                  <option key={column.name} value={column.name}>
                    {printable(column.name)}
                  </option>
                ))}
              </select>
            </label>
            <label>
              Best is{" "}
              <select
                value={isLower ? "low" : "high"}
                onChange={(event) => setQuery({ best: event.currentTarget.value })}
              >
                <option value="low">the lowest</option>
                <option value="high">the highest</option>
              </select>
            </label>
          </>
        ) : (
          <span class="faint">
            Numbers that a job writes to <code>$GRASS_RESULT_FILE</code> as JSON are shown here.
          </span>
        )}
        {top && target ? (
          <span class="best">
            Best: <b>{short(top.values[target.at] as number)}</b> by <a href={`/jobs/${top.id}`}>job {top.id}</a>
          </span>
        ) : null}
        {brushes.value.size ? (
          <button
            type="button"
            onClick={() => {
              brushes.value = new Map();
            }}
          >
            {plural(rows.length, "row")} of {sweep.rows.length}: clear the brushes
          </button>
        ) : null}
      </div>
      {sweep.definition ? (
        <p class="faint sweep-definition">
          <code>
            <Text>{sweep.definition}</Text>
          </code>
        </p>
      ) : null}
      {sweep.is_cut ? (
        <p class="note">
          The newest {plural(sweep.rows.length, "job")} of {plural(sweep.count, "job")} are shown.
        </p>
      ) : null}
      {axes.length > 1 ? (
        <section class="panel" aria-label="Parallel coordinates">
          <Parallel
            axes={axes}
            rows={sweep.rows}
            kept={kept}
            brushes={brushes}
            colourBy={target?.at ?? null}
            best={top?.id ?? null}
            columns={sweep.columns}
            onScale={(column) => {
              const next = new Set(linear.value);
              if (!next.delete(column)) next.add(column);
              linear.value = next;
            }}
          />
        </section>
      ) : null}
      {target ? (
        <div class="sweep-plots">
          <Scatter columns={sweep.columns} axes={axes} rows={rows} y={target.at} best={top?.id ?? null} />
          <BestSoFar rows={rows} column={target.at} name={target.column.name} isLower={isLower} />
        </div>
      ) : null}
      <SweepTable
        columns={sweep.columns}
        rows={rows}
        best={top?.id ?? null}
        target={target?.at ?? null}
        isLower={isLower}
      />
    </>
  );
}
