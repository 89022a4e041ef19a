/** The best result so far, over time: whether the sweep still finds something. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour, themeChanges } from "../../ui/colours";
import { clock, clockWithSeconds, fullTime, printable } from "../../ui/format";
import { bestSoFar, type Row } from "./data";

const HEIGHT = 230;

export function BestSoFar(props: { rows: readonly Row[]; column: number; name: string; isLower: boolean }) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { times, values, bests } = bestSoFar(props.rows, props.column, props.isLower);
  const data = [times, values, bests] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  const name = printable(props.name);
  useEffect(() => {
    plot.current?.setData(latest.current);
  });
  useSignalEffect(() => {
    void themeChanges.value;
    if (holder.current) draw(holder.current);
  });
  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    draw(element);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
    // A plot of another result has another scale and another name.
  }, [name]);
  function draw(element: HTMLElement): void {
    plot.current?.destroy();
    plot.current = new uPlot(options(element.clientWidth || 400, name), latest.current, element);
  }
  return (
    <section class="panel" aria-label="Best so far">
      <h2>Best {name} so far</h2>
      {times.length ? null : <p class="faint">No job has ended with a result yet.</p>}
      <div ref={holder} class="best-plot" />
    </section>
  );
}

/** Return the words of the time axis: with seconds where minutes would be the same word twice. */
function timeTicks(times: readonly number[]): string[] {
  const step = times.length > 1 ? times[1]! - times[0]! : Number.POSITIVE_INFINITY;
  return times.map((time) => (step < 60 ? clockWithSeconds : clock)(new Date(time * 1000)));
}

function options(width: number, name: string): uPlot.Options {
  const axis = {
    stroke: colour("--faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line") },
  };
  return {
    width,
    height: HEIGHT,
    legend: { live: true },
    axes: [
      { ...axis, values: (_, times) => timeTicks(times) },
      { ...axis, size: 60 },
    ],
    series: [
      { label: "ended", value: (_, time) => (time === null ? "" : fullTime(new Date(time * 1000))) },
      {
        label: name,
        paths: () => null,
        points: { show: true, size: 6, fill: colour("--queued"), stroke: "transparent" },
      },
      {
        label: "best so far",
        stroke: colour("--accent"),
        width: 2,
        points: { show: false },
        ...(uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      },
    ],
  };
}
