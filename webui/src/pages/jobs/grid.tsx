// biome-ignore-all lint/a11y/useSemanticElements: rows that are not drawn cannot be in a <table>
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus, and says which row is active

/** The table: a head that stays, and the rows that are visible. On a phone a row is a card of two lines. */

import { useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Job } from "../../api/types";
import { isForFocus } from "../../keys";
import { go } from "../../router";
import { mayChange } from "../../session";
import { commandLine, count } from "../../ui/format";
import { isNarrow } from "../../ui/hooks";
import { Text } from "../../ui/parts";
import { Scroller } from "../../ui/scroller";
import { visibleRows } from "../../ui/virtual";
import { asked, type Column, place, Ran, RowState, template, Why } from "./columns";
import type { Table } from "./table";

/** Pixels of a row, of a card on a phone, and of the head. */
export const ROW = 30;
export const CARD = 58;
const HEAD = 32;

export function Grid(props: { table: Table; columns: readonly Column[] }) {
  const { table, columns } = props;
  const ref = useRef<HTMLDivElement>(null);
  const cards = isNarrow.value;
  const rowHeight = cards ? CARD : ROW;
  const head = cards ? 0 : HEAD;
  const scroller = useScroller(ref, head, table);
  const { total, isLoaded, version } = table.rows.state.value;
  useLayoutEffect(() => {
    table.rowHeight = rowHeight;
    scroller.setReal(total * rowHeight);
  }, [total, rowHeight, scroller, table]);
  const range = useComputed(() =>
    visibleRows(
      scroller.top.value,
      scroller.height.value || 600,
      isNarrow.value ? CARD : ROW,
      table.rows.state.value.total,
    ),
  );
  const { first, count: drawn } = range.value;
  useEffect(() => table.show(first, drawn), [first, drawn, version, table]);
  const shift = scroller.top.value;
  const columnTemplate = cards ? "34px 1fr" : template(columns);
  const rows = [];
  for (let index = first; index < first + drawn; index++) {
    const job = table.rows.row(index);
    rows.push(
      <Row
        key={job ? job.id : `empty ${index}`}
        job={job}
        index={index}
        top={index * rowHeight - shift}
        table={table}
        columns={columns}
        columnTemplate={columnTemplate}
        isCard={cards}
        isCursor={table.cursor.value === index}
        isSelected={job !== undefined && table.isSelected(job)}
      />,
    );
  }
  const at = table.cursor.value;
  return (
    <div
      ref={ref}
      class={cards ? "grid cards" : "grid"}
      role="grid"
      aria-label="Jobs"
      aria-rowcount={total + 1}
      aria-multiselectable="true"
      aria-busy={!isLoaded}
      aria-activedescendant={at !== null && table.rows.row(at) ? `row-${at}` : undefined}
      tabIndex={0}
      onKeyDown={(event) => gridKey(event, table)}
      onFocus={() => table.hasFocus(true)}
      onBlur={() => table.hasFocus(false)}
      onPointerMove={() => table.pointerMoved()}
    >
      <Head table={table} columns={columns} columnTemplate={columnTemplate} isCard={cards} />
      <div class="grid-rows" role="rowgroup" style={{ height: `${scroller.spacer.value}px` }}>
        <div class="grid-layer" role="presentation" style={{ top: `${head}px`, height: `${scroller.height.value}px` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}

function useScroller(ref: { current: HTMLDivElement | null }, head: number, table: Table): Scroller {
  const made = useRef<{ head: number; scroller: Scroller } | null>(null);
  if (made.current?.head !== head) made.current = { head, scroller: new Scroller(head) };
  const { scroller } = made.current;
  useLayoutEffect(() => {
    table.scroller = scroller;
    return ref.current ? scroller.attach(ref.current) : undefined;
  }, [scroller, table, ref]);
  return scroller;
}

function Head(props: { table: Table; columns: readonly Column[]; columnTemplate: string; isCard: boolean }) {
  const { table, columns } = props;
  if (props.isCard) return null;
  const { sort, order } = table.key.value;
  return (
    <div class="grid-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: props.columnTemplate }}>
      <div role="columnheader" class="check">
        {table.maySelect ? (
          <input
            type="checkbox"
            aria-label="Select all that match"
            checked={table.selection.value.kind === "all" || table.isSelectingAll.value}
            onChange={(event) => (event.currentTarget.checked ? void table.selectAll() : table.clear())}
          />
        ) : null}
      </div>
      {columns.map((column) => (
        <div
          key={column.id}
          role="columnheader"
          class={column.isNumber ? "number" : undefined}
          aria-sort={column.sort && column.sort === sort ? (order === "asc" ? "ascending" : "descending") : undefined}
        >
          {column.sort ? (
            <button type="button" class="sort" onClick={() => table.sortBy(column)}>
              {column.title}
              <span aria-hidden="true">{column.sort === sort ? (order === "asc" ? " ↑" : " ↓") : ""}</span>
            </button>
          ) : (
            column.title
          )}
        </div>
      ))}
    </div>
  );
}

interface RowProps {
  job: Job | undefined;
  index: number;
  top: number;
  table: Table;
  columns: readonly Column[];
  columnTemplate: string;
  isCard: boolean;
  isCursor: boolean;
  isSelected: boolean;
}

function Row(props: RowProps) {
  const { job, index, table, columns, isSelected } = props;
  const style = { transform: `translateY(${props.top}px)`, gridTemplateColumns: props.columnTemplate };
  const classes = `row${props.isCursor ? " cursor" : ""}${isSelected ? " selected" : ""}`;
  if (!job)
    return (
      <div class={`${classes} placeholder`} role="row" aria-rowindex={index + 2} style={style}>
        <div role="gridcell" class="check" />
        <div role="gridcell">{count(index + 1)}</div>
      </div>
    );
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid has the keys
    <div
      id={`row-${index}`}
      class={classes}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      style={style}
      onClick={(event) => rowClicked(event, table, index, job)}
    >
      <div role="gridcell" class="check">
        {mayChange(job) ? (
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={`Select job ${job.id}`}
            checked={isSelected}
            onClick={(event) => {
              event.stopPropagation();
              void table.toggle(index, event.shiftKey);
            }}
          />
        ) : null}
      </div>
      {props.isCard ? (
        <Card job={job} />
      ) : (
        columns.map((column) => (
          <div key={column.id} role="gridcell" class={`${column.isNumber ? "number " : ""}c-${column.id}`}>
            {column.cell(job)}
          </div>
        ))
      )}
    </div>
  );
}

function Card(props: { job: Job }) {
  const { job } = props;
  const hints = [job.queue, asked(job), place(job)].filter(Boolean).join(" · ");
  return (
    <div role="gridcell" class="card">
      <div>
        <RowState job={job} />
        <a href={`/jobs/${job.id}`} tabIndex={-1}>
          {job.id}
        </a>
        <Text class={job.name ? "name" : "mono"}>{job.name ?? commandLine(job).slice(0, 200)}</Text>
        <span class="faint number">
          <Ran job={job} />
        </span>
      </div>
      <div class="faint">
        <Text class="hints">{hints}</Text>
        <Why job={job} />
      </div>
    </div>
  );
}

function rowClicked(event: MouseEvent, table: Table, index: number, job: Job): void {
  if (event.defaultPrevented || (event.target instanceof Element && event.target.closest("a, input, button"))) return;
  if (event.shiftKey || event.ctrlKey || event.metaKey) {
    event.preventDefault();
    getSelection()?.removeAllRanges();
    if (table.maySelect) void table.toggle(index, event.shiftKey);
    return;
  }
  // Who marks text in a row does not want to leave.
  if (getSelection()?.isCollapsed === false) return;
  go(`/jobs/${job.id}`);
}

function gridKey(event: KeyboardEvent, table: Table): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isForFocus(event)) return;
  if (event.target instanceof Element && event.target.closest(".grid-head")) return;
  const page = table.pageRows();
  const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const move = moves[event.key];
  if (move !== undefined) table.move(move, event.shiftKey);
  else if (event.key === "Home") table.moveTo(0);
  else if (event.key === "End") table.moveTo(Number.MAX_SAFE_INTEGER);
  else if (event.key === " ") table.toggleCursor();
  else if (event.key === "Enter") void table.openCursor();
  else return;
  event.preventDefault();
}
