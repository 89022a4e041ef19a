/** Parallel coordinates: one axis a column, one line a job; dragging along an axis keeps the lines inside. */

import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Canvas, type Size } from "../../ui/canvas";
import { colour } from "../../ui/colours";
import { printable } from "../../ui/format";
import type { Axis, Brushes } from "./axis";
import type { Column, Row } from "./data";
import { ramp } from "./ramp";

const PAD = { left: 60, right: 60, top: 34, bottom: 16 };
/** A drag shorter than this part of an axis takes the brush away. */
const BRUSH_MIN = 0.02;
/** Lines that are drawn; of more, the first ones. */
const LINES_MAX = 5_000;
/** How near to an axis a drag begins, in pixels. */
const GRAB_PX = 24;

interface Props {
  axes: readonly Axis[];
  columns: readonly Column[];
  rows: readonly Row[];
  kept: ReadonlySet<number>;
  brushes: Signal<Brushes>;
  colourBy: number | null;
  best: number | null;
  onScale: (column: string) => void;
}

function xOf(index: number, count: number, width: number): number {
  return PAD.left + (count < 2 ? 0 : (index * (width - PAD.left - PAD.right)) / (count - 1));
}

export function Parallel(props: Props) {
  const { axes, brushes } = props;
  const drag = useRef<{ axis: Axis; from: number } | null>(null);
  const placeOf = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const inside = box.height - PAD.top - PAD.bottom;
    const x = event.clientX - box.left;
    const at = 1 - (event.clientY - box.top - PAD.top) / inside;
    const index = axes.findIndex((_, each) => Math.abs(xOf(each, axes.length, box.width) - x) < GRAB_PX);
    return { axis: axes[index] ?? null, at: Math.min(1, Math.max(0, at)) };
  };
  const set = (axis: Axis, one: number, two: number) => {
    const next = new Map(brushes.value);
    if (Math.abs(one - two) < BRUSH_MIN) next.delete(axis.column);
    else next.set(axis.column, [Math.min(one, two), Math.max(one, two)]);
    brushes.value = next;
  };
  return (
    <>
      <p class="faint plot-hint">Drag along an axis to keep the jobs inside; a click takes the brush away.</p>
      <Canvas
        class="parallel"
        role="img"
        aria-label={`Parallel coordinates of ${props.rows.length} jobs; the table below has the same numbers`}
        draw={(context, size) => drawLines(context, size, props)}
        onPointerDown={(event) => {
          const { axis, at } = placeOf(event);
          if (!axis) return;
          drag.current = { axis, from: at };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          if (drag.current) set(drag.current.axis, drag.current.from, placeOf(event).at);
        }}
        onPointerUp={(event) => {
          if (drag.current) set(drag.current.axis, drag.current.from, placeOf(event).at);
          drag.current = null;
        }}
      />
      <div class="axis-scales">
        {props.columns
          .filter((column) => column.is_log)
          .map((column) => (
            <button key={column.name} type="button" class="quiet" onClick={() => props.onScale(column.name)}>
              {printable(column.name)}: logarithmic or linear
            </button>
          ))}
      </div>
    </>
  );
}

function drawLines(context: CanvasRenderingContext2D, size: Size, props: Props): void {
  const { axes, rows, kept, colourBy, best } = props;
  const height = size.height - PAD.top - PAD.bottom;
  const yOf = (place: number) => PAD.top + (1 - place) * height;
  const shade = axes.find((axis) => axis.column === colourBy);
  const draw = (row: Row, style: string, width: number, alpha: number) => {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.globalAlpha = alpha;
    context.beginPath();
    let down = false;
    for (const [index, axis] of axes.entries()) {
      const place = axis.place(row.values[axis.column]);
      if (place === null) down = false;
      else {
        const [x, y] = [xOf(index, axes.length, size.width), yOf(place)];
        if (down) context.lineTo(x, y);
        else context.moveTo(x, y);
        down = true;
      }
    }
    context.stroke();
  };
  const shown = rows.slice(0, LINES_MAX);
  const alpha = Math.max(0.15, Math.min(0.8, 60 / shown.length));
  for (const row of shown) if (!kept.has(row.id)) draw(row, colour("--line"), 1, 0.5);
  for (const row of shown)
    if (kept.has(row.id) && row.id !== best)
      draw(row, ramp(shade?.place(row.values[shade.column]) ?? null), 1.3, alpha);
  const top = rows.find((row) => row.id === best);
  if (top) draw(top, colour("--accent"), 3, 1);
  context.globalAlpha = 1;
  for (const [index, axis] of axes.entries()) drawAxis(context, size, axis, index, props);
}

function drawAxis(context: CanvasRenderingContext2D, size: Size, axis: Axis, index: number, props: Props): void {
  const x = xOf(index, props.axes.length, size.width);
  const height = size.height - PAD.top - PAD.bottom;
  context.strokeStyle = colour("--strong-line");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, PAD.top);
  context.lineTo(x, PAD.top + height);
  context.stroke();
  context.font = "600 12px system-ui, sans-serif";
  context.fillStyle = colour("--text");
  context.textAlign = index === 0 ? "left" : index === props.axes.length - 1 ? "right" : "center";
  context.fillText(
    printable(axis.name).slice(0, 22),
    index === 0 ? 8 : index === props.axes.length - 1 ? size.width - 8 : x,
    16,
  );
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("--faint");
  const isLast = index === props.axes.length - 1;
  context.textAlign = isLast ? "left" : "right";
  for (const tick of axis.ticks) {
    const y = PAD.top + (1 - tick.at) * height;
    const words = printable(tick.words);
    // On a ground of its own: lines of jobs pass behind the words.
    const width = context.measureText(words).width + 4;
    context.globalAlpha = 0.85;
    context.fillStyle = colour("--panel");
    context.fillRect(isLast ? x + 4 : x - 4 - width, y - 7, width, 14);
    context.globalAlpha = 1;
    context.fillStyle = colour("--faint");
    context.fillText(words, isLast ? x + 6 : x - 6, y + 4);
  }
  const held = props.brushes.value.get(axis.column);
  if (held) {
    context.fillStyle = colour("--accent");
    context.globalAlpha = 0.35;
    context.fillRect(x - 6, PAD.top + (1 - held[1]) * height, 12, (held[1] - held[0]) * height);
    context.globalAlpha = 1;
  }
}
