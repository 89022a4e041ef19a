// biome-ignore-all lint/a11y/noNoninteractiveTabindex: keys scroll the log

/** The lines of a log that are visible. */

import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { LogLine } from "../../live/live";
import type { LogController } from "./controller";
import { LogRow, type RowActions, type RowFlags } from "./row";

/** After this long without a scroll, the scroll bar is put where it belongs. */
const REST_MS = 150;
/** Rows that are kept as they were drawn. */
const DRAWN_MAX = 400;

interface Drawn {
  line: LogLine | undefined;
  flags: string;
  node: VNode;
}

export function LogPane(props: { log: LogController; act: RowActions }) {
  const { log } = props;
  const scroller = useRef<HTMLElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const drawn = useRef(new Map<number, Drawn>());
  const expected = useRef(0);
  const again = useSignal(0);
  useScrolling(scroller, expected, log);
  const { rows, isCounted } = log.lines.state.value;
  void log.changes.value;
  void again.value;
  const wraps = log.wraps.value;
  const { first, count } = log.place.range();
  const nodes: VNode[] = [];
  for (let row = first; row < first + count; row++) nodes.push(draw(row, log, props.act, drawn.current));
  useLayoutEffect(() => {
    if (wraps && measure(layer.current, log)) {
      const next = log.place.range();
      if (next.first !== first || next.count !== count) again.value++;
    }
    if (layer.current) layer.current.style.transform = `translateY(${-log.place.shift(first)}px)`;
    settle(scroller.current, expected, log);
    log.heldByte = log.lines.line(log.place.row)?.begin ?? null;
  });
  const digits = Math.max(3, String(isCounted ? rows : 0).length);
  return (
    <section ref={scroller} class={wraps ? "log-pane wraps" : "log-pane"} tabIndex={0} aria-label="Log">
      <div class="log-spacer" style={{ height: `${log.place.spacer}px` }}>
        <div class="log-window" style={{ height: `${log.place.viewport}px` }}>
          <div ref={layer} class="log-layer" style={{ "--digits": `${digits}ch` }}>
            {nodes}
          </div>
        </div>
      </div>
    </section>
  );
}

/** Draw a row, or return it as it was drawn before. */
function draw(row: number, log: LogController, act: RowActions, drawn: Map<number, Drawn>): VNode {
  const line = log.lines.line(row);
  const flags = flagsOf(row, line, log);
  const text = JSON.stringify(flags);
  const before = drawn.get(row);
  if (before && before.line === line && before.flags === text) return before.node;
  const node = <LogRow key={row} line={line} row={row} flags={flags} act={act} />;
  if (drawn.size > DRAWN_MAX) drawn.clear();
  drawn.set(row, { line, flags: text, node });
  return node;
}

function flagsOf(row: number, line: LogLine | undefined, log: LogController): RowFlags {
  const marked = log.marked.value;
  const { asked, line: current } = log.search.state.value;
  const number = line?.n ?? null;
  return {
    isMarked: number !== null && marked !== null && number >= marked.first && number <= marked.last,
    isCurrent: number !== null && current === number,
    isGap: log.lines.isGapBefore(row),
    asked,
    place: number === null ? undefined : log.search.places.get(number),
  };
}

/** Learn how high the drawn rows are; return whether that is news. */
function measure(layer: HTMLElement | null, log: LogController): boolean {
  let isNew = false;
  for (const element of layer?.children ?? []) {
    const row = Number((element as HTMLElement).dataset.row);
    if (log.place.measured(row, element.getBoundingClientRect().height)) isNew = true;
  }
  if (isNew) log.place.remeasure();
  return isNew;
}

/** Put the scroll bar where the log is. */
function settle(element: HTMLElement | null, expected: { current: number }, log: LogController): void {
  if (!element || (!log.place.isExact && Date.now() - log.scrolledAt < REST_MS)) return;
  const wanted = log.place.native;
  if (Math.abs(element.scrollTop - wanted) < 1) {
    expected.current = element.scrollTop;
    return;
  }
  element.scrollTop = wanted;
  expected.current = element.scrollTop;
}

function useScrolling(ref: { current: HTMLElement | null }, expected: { current: number }, log: LogController): void {
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const watch = new ResizeObserver(() => {
      if (log.wraps.value) log.place.forgetHeights();
      log.place.setViewport(element.clientHeight);
      log.redraw();
    });
    watch.observe(element);
    let rest: ReturnType<typeof setTimeout> | undefined;
    const scrolled = () => {
      const moved = element.scrollTop - expected.current;
      if (Math.abs(moved) < 1) return;
      expected.current = element.scrollTop;
      log.scrolledAt = Date.now();
      const isEdge = element.scrollTop <= 0 || element.scrollTop >= log.place.spacer - log.place.viewport - 1;
      if (log.place.isExact || isEdge || Math.abs(moved) > 2 * log.place.viewport)
        log.place.toNative(element.scrollTop);
      else log.place.move(moved);
      log.moved();
      clearTimeout(rest);
      if (!log.place.isExact) rest = setTimeout(() => log.redraw(), REST_MS + 10);
    };
    const wheeled = (event: WheelEvent) => {
      if (log.place.isExact || event.ctrlKey || event.shiftKey || event.deltaY === 0) return;
      event.preventDefault();
      log.place.move(event.deltaY * (event.deltaMode === 1 ? log.place.base : 1));
      log.moved();
    };
    element.addEventListener("scroll", scrolled, { passive: true });
    element.addEventListener("wheel", wheeled, { passive: false });
    return () => {
      watch.disconnect();
      clearTimeout(rest);
      element.removeEventListener("scroll", scrolled);
      element.removeEventListener("wheel", wheeled);
    };
  }, [ref, expected, log]);
  useEffect(() => {
    const selected = () => {
      const selection = getSelection();
      if (selection && !selection.isCollapsed && ref.current?.contains(selection.anchorNode)) log.pause();
    };
    document.addEventListener("selectionchange", selected);
    return () => document.removeEventListener("selectionchange", selected);
  }, [ref, log]);
}
