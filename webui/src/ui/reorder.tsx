/** A list whose rows can be put in another order: by dragging the handle of a row, or by keys on the handle. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "./reorder.css";

/** Where a row goes: before or after another one, or to an end of the line. */
export interface Move {
  where: "before" | "after" | "first" | "last";
  target: number | null;
}

/**
 * Return the move that puts the row `from` where the gap `gap` is (0 is before the first row); null if nothing moves, or
 * if the row would pass one that it may not pass.
 */
export function moveTo(
  ids: readonly number[],
  from: number,
  gap: number,
  mayPass: (id: number) => boolean = () => true,
): Move | null {
  if (gap === from || gap === from + 1) return null;
  if (!ids.slice(gap, Math.max(gap, from)).every(mayPass)) return null;
  const target = gap === 0 ? ids[0] : ids[gap - 1];
  return target === undefined ? null : { where: gap === 0 ? "before" : "after", target };
}

/** Return the ids with one of them at another gap. */
export function reordered(ids: readonly number[], from: number, gap: number): number[] {
  const moved = ids[from];
  if (moved === undefined) return [...ids];
  const rest = ids.filter((_, index) => index !== from);
  rest.splice(gap > from ? gap - 1 : gap, 0, moved);
  return rest;
}

/** A row that is dragged: by ids, because the list may change under the pointer. */
export interface Drag {
  id: number;
  /** The row below the gap; null at the end of the list. */
  before: number | null;
}

/** Return the place of a dragged row and of its gap in a list as it is now; null if one of them has left it. */
export function placeOf(ids: readonly number[], drag: Drag): { from: number; gap: number } | null {
  const from = ids.indexOf(drag.id);
  const gap = drag.before === null ? ids.length : ids.indexOf(drag.before);
  return from < 0 || gap < 0 ? null : { from, gap };
}

export function Reorder<T extends { id: number }>(props: {
  items: readonly T[];
  label: string;
  /** Whether a row may be moved; else it has no handle. */
  mayMove: (item: T) => boolean;
  /** Whether a row that is moved up may pass another one. */
  mayPass: (item: T) => boolean;
  nameOf: (item: T) => string;
  onMove: (id: number, move: Move) => void;
  /** Draws a row, with the row above it. */
  children: (item: T, above: T | undefined) => ComponentChildren;
}) {
  const list = useRef<HTMLOListElement>(null);
  const drag = useSignal<Drag | null>(null);
  const ids = props.items.map((item) => item.id);
  const gapAt = (y: number): number => {
    const rows = [...(list.current?.children ?? [])];
    const found = rows.findIndex((row) => {
      const box = row.getBoundingClientRect();
      return y < box.top + box.height / 2;
    });
    return found < 0 ? rows.length : found;
  };
  const dragged = drag.value && placeOf(ids, drag.value);
  const isGone = drag.value !== null && !ids.includes(drag.value.id);
  // A job that has left the list takes its handle along: no event of the pointer would end the drag.
  useEffect(() => {
    if (isGone) drag.value = null;
  }, [isGone, drag]);
  const hasHandles = props.items.some(props.mayMove);
  const passable = new Set(props.items.filter(props.mayPass).map((item) => item.id));
  const moveOf = (from: number, gap: number) => moveTo(ids, from, gap, (id) => passable.has(id));
  const settle = (from: number, gap: number) => {
    const move = moveOf(from, gap);
    if (move && ids[from] !== undefined) props.onMove(ids[from], move);
  };
  const moves = dragged !== null && moveOf(dragged.from, dragged.gap) !== null;
  const key = (event: KeyboardEvent, index: number) => {
    const last = ids.length - 1;
    const id = ids[index];
    if (id === undefined) return;
    if (event.key === "ArrowUp" && index > 0) settle(index, index - 1);
    else if (event.key === "ArrowDown" && index < last) settle(index, index + 2);
    else if (event.key === "Home" && moveOf(index, 0)) props.onMove(id, { where: "first", target: null });
    else if (event.key === "End") props.onMove(id, { where: "last", target: null });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <ol ref={list} class="reorder" aria-label={props.label}>
      {props.items.map((item, index) => (
        <li key={item.id} class={rowClass(dragged, index, ids.length, moves)}>
          {props.mayMove(item) ? (
            <button
              type="button"
              class="quiet handle"
              title="Drag to move; arrow keys, Home and End do the same"
              aria-label={`Move ${props.nameOf(item)}, now at place ${index + 1}: arrow keys, Home or End`}
              onKeyDown={(event) => key(event, index)}
              onPointerDown={(event) => {
                if (event.button !== 0) return;
                event.currentTarget.setPointerCapture(event.pointerId);
                drag.value = { id: item.id, before: item.id };
              }}
              onPointerMove={(event) => {
                if (drag.value) drag.value = { id: drag.value.id, before: ids[gapAt(event.clientY)] ?? null };
              }}
              onPointerUp={() => {
                const done = drag.value && placeOf(ids, drag.value);
                drag.value = null;
                if (done) settle(done.from, done.gap);
              }}
              onLostPointerCapture={() => {
                drag.value = null;
              }}
            >
              <span aria-hidden="true">⠿</span>
            </button>
          ) : hasHandles ? (
            <span class="no-handle" />
          ) : null}
          {props.children(item, props.items[index - 1])}
        </li>
      ))}
    </ol>
  );
}

function rowClass(drag: { from: number; gap: number } | null, index: number, count: number, moves: boolean): string {
  if (!drag) return "";
  if (index === drag.from) return "dragged";
  if (moves && index === drag.gap) return "gap-before";
  return moves && drag.gap === count && index === count - 1 ? "gap-after" : "";
}
