/** A canvas that is sharp on every screen, and is drawn again when its size, its theme or its data change. */

import { useSignalEffect } from "@preact/signals";
import type { CanvasHTMLAttributes } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { themeChanges } from "./colours";

export interface Size {
  width: number;
  height: number;
}

type Draw = (context: CanvasRenderingContext2D, size: Size) => void;

/** Draws with `draw` whenever the component is rendered, at most once a frame; the size comes from the style sheet. */
export function Canvas(props: { draw: Draw } & Omit<CanvasHTMLAttributes<HTMLCanvasElement>, "width" | "height">) {
  const { draw, ...rest } = props;
  const ref = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  const due = useRef(0);
  latest.current = draw;
  const redraw = useRef(() => {
    if (due.current) return;
    due.current = requestAnimationFrame(() => {
      due.current = 0;
      const canvas = ref.current;
      if (canvas) paint(canvas, latest.current);
    });
  }).current;
  useEffect(redraw);
  useSignalEffect(() => {
    void themeChanges.value;
    redraw();
  });
  useEffect(() => {
    const canvas = ref.current;
    if (!canvas) return;
    const observer = new ResizeObserver(redraw);
    observer.observe(canvas);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(due.current);
      due.current = 0;
    };
  }, [redraw]);
  return <canvas ref={ref} {...rest} />;
}

function paint(canvas: HTMLCanvasElement, draw: Draw): void {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  if (!context || !width || !height) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  draw(context, { width, height });
}
