/** The jobs of a sweep with their parameters and results, sorted by any column. */

import { useSignal } from "@preact/signals";
import { duration, plural, printable } from "../../ui/format";
import { StateMark } from "../../ui/parts";
import { short } from "./axis";
import { type Column, type Row, type SortKey, sorted, type Value } from "./data";

/** Rows that are drawn at first, and with each "more". */
const ROWS = 200;

interface Props {
  columns: readonly Column[];
  rows: readonly Row[];
  best: number | null;
  target: number | null;
  isLower: boolean;
}

export function SweepTable(props: Props) {
  const sort = useSignal<{ key: SortKey; descending: boolean } | null>(null);
  const shown = useSignal(ROWS);
  const chosen = sort.value ?? { key: props.target ?? "id", descending: props.target !== null && !props.isLower };
  const rows = sorted(props.rows, chosen.key, chosen.descending);
  const header = (key: SortKey, words: string, className = "") => {
    const isHere = chosen.key === key;
    return (
      <th
        key={String(key)}
        class={className}
        aria-sort={isHere ? (chosen.descending ? "descending" : "ascending") : "none"}
      >
        <button
          type="button"
          class="quiet sort"
          onClick={() => {
            sort.value = { key, descending: isHere ? !chosen.descending : false };
          }}
        >
          <bdi>{printable(words)}</bdi>
          <span aria-hidden="true">{isHere ? (chosen.descending ? " ↓" : " ↑") : ""}</span>
        </button>
      </th>
    );
  };
  return (
    <section class="panel scroll-x" aria-label="Jobs of the sweep">
      <table class="plain sweep-table">
        <thead>
          <tr>
            {header("id", "Job")}
            {header("state", "State")}
            {props.columns.map((column, at) => header(at, column.name, column.group))}
            {header("seconds", "Took")}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown.value).map((row) => (
            <tr key={row.id} class={row.id === props.best ? "best-row" : ""}>
              <td>
                <a href={`/jobs/${row.id}`}>{row.id}</a>
              </td>
              <td>
                <StateMark state={row.state} />
              </td>
              {props.columns.map((column, at) => (
                <td key={column.name} class={column.group}>
                  <bdi>{text(row.values[at] ?? null)}</bdi>
                </td>
              ))}
              <td>{row.seconds === null ? "" : duration(row.seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.value ? (
        <button
          type="button"
          onClick={() => {
            shown.value += ROWS * 5;
          }}
        >
          Show more of {plural(rows.length, "row")}
        </button>
      ) : null}
    </section>
  );
}

function text(value: Value): string {
  return value === null ? "" : typeof value === "number" ? short(value) : printable(value);
}
