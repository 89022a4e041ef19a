/** One parameter against the result: a dot a job. */

import { useSignal } from "@preact/signals";
import { go } from "../../router";
import { Canvas, type Size } from "../../ui/canvas";
import { colour } from "../../ui/colours";
import { printable } from "../../ui/format";
import { type Axis, short } from "./axis";
import type { Column, Row } from "./data";
import { ramp } from "./ramp";

const PAD = { left: 56, right: 16, top: 12, bottom: 30 };
const NEAR_PX = 9;

interface Props {
  columns: readonly Column[];
  axes: readonly Axis[];
  rows: readonly Row[];
  y: number;
  best: number | null;
}

interface Dot {
  row: Row;
  x: number;
  y: number;
}

export function Scatter(props: Props) {
  const first = props.columns.findIndex((column, at) => column.group === "parameter" && at !== props.y);
  const chosen = useSignal<string | null>(null);
  const near = useSignal<Row | null>(null);
  const named = props.columns.findIndex((column) => column.name === chosen.value);
  const at = named >= 0 ? named : Math.max(0, first);
  const [x, y] = [props.axes[at], props.axes[props.y]];
  if (!x || !y) return null;
  const find = (event: MouseEvent): Row | null => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const dots = place(props.rows, x, y, { width: box.width, height: box.height });
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let found: Row | null = null;
    let least = NEAR_PX;
    for (const dot of dots) {
      const distance = Math.hypot(dot.x - px, dot.y - py);
      if (distance <= least) [found, least] = [dot.row, distance];
    }
    return found;
  };
  return (
    <section class="panel" aria-label="Scatter">
      <div class="bar">
        <h2 class="grow">
          {printable(y.name)} by{" "}
          <select
            aria-label="Parameter"
            value={x.name}
            onChange={(event) => {
              chosen.value = event.currentTarget.value;
            }}
          >
            {props.columns
              .filter((_, index) => index !== props.y)
              .map((column) => (
                <option key={column.name} value={column.name}>
                  {printable(column.name)}
                </option>
              ))}
          </select>
        </h2>
        <span class="faint">
          {near.value
            ? `job ${near.value.id}: ${words(near.value, x)} → ${words(near.value, y)}`
            : "point at a dot; a click opens the job"}
        </span>
      </div>
      <Canvas
        class="scatter"
        role="img"
        aria-label={`${printable(y.name)} by ${printable(x.name)}; the table below has the same numbers`}
        draw={(context, size) => draw(context, size, props, x, y, near.value)}
        onPointerMove={(event) => {
          near.value = find(event);
        }}
        onPointerLeave={() => {
          near.value = null;
        }}
        onClick={(event) => {
          const row = find(event);
          if (row) go(`/jobs/${row.id}`);
        }}
      />
    </section>
  );
}

function words(row: Row, axis: Axis): string {
  const value = row.values[axis.column];
  return typeof value === "number" ? short(value) : printable(value ?? "none");
}

function place(rows: readonly Row[], x: Axis, y: Axis, size: Size): Dot[] {
  const [width, height] = [size.width - PAD.left - PAD.right, size.height - PAD.top - PAD.bottom];
  return rows.flatMap((row) => {
    const [across, up] = [x.place(row.values[x.column]), y.place(row.values[y.column])];
    if (across === null || up === null) return [];
    return [{ row, x: PAD.left + across * width, y: PAD.top + (1 - up) * height }];
  });
}

function draw(context: CanvasRenderingContext2D, size: Size, props: Props, x: Axis, y: Axis, near: Row | null): void {
  const [width, height] = [size.width - PAD.left - PAD.right, size.height - PAD.top - PAD.bottom];
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("--faint");
  context.strokeStyle = colour("--line");
  context.lineWidth = 1;
  context.textAlign = "right";
  for (const tick of y.ticks) {
    const at = PAD.top + (1 - tick.at) * height;
    context.beginPath();
    context.moveTo(PAD.left, at);
    context.lineTo(PAD.left + width, at);
    context.stroke();
    context.fillText(printable(tick.words), PAD.left - 6, at + 4);
  }
  context.textAlign = "center";
  for (const tick of x.ticks.slice(0, 12))
    context.fillText(printable(tick.words), PAD.left + tick.at * width, size.height - 10);
  for (const dot of place(props.rows, x, y, size)) {
    const isBest = dot.row.id === props.best;
    context.beginPath();
    context.arc(dot.x, dot.y, isBest || dot.row === near ? 6 : 4, 0, 2 * Math.PI);
    context.fillStyle = isBest ? colour("--accent") : ramp(y.place(dot.row.values[y.column]));
    context.globalAlpha = isBest || dot.row === near ? 1 : 0.75;
    context.fill();
  }
  context.globalAlpha = 1;
}
