/** Draws the timeline on a canvas, from a layout. Nothing here decides where something is. */

import { printable } from "../../../ui/format";
import { AXIS, type BlockBox, type LaneBox, type Layout } from "./layout";
import type { JobBlock, TimelineAnswer } from "./model";
import { mix, type Paint, type Palette } from "./paint";
import { type Tick, ticks, type View, xOf } from "./scale";

export interface Scene {
  answer: TimelineAnswer;
  layout: Layout;
  view: View;
  /** How far the lanes are scrolled, and how high the visible part is. */
  top: number;
  visible: number;
  selected: number | null;
  focused: string | null;
  hovered: string | null;
  /** The range of time that is being chosen. */
  band: View | null;
  /** What is free of each lane's device, by lane; shown beside its name. */
  notes: readonly string[];
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const SMALL = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const TINY = "9px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const BOLD = "600 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const RADIUS = 3;
/** How much of its colour the ground of a chosen range has. */
const BAND_TONE = 0.18;
/** The narrowest block that has words in it, and the lowest. */
const WORDS_WIDTH = 26;
const WORDS_HEIGHT = 10;
/** A narrower block has no edge, but a stronger tone. */
const EDGE_WIDTH = 7;
const NARROW_TONE = 0.55;
/** A lower block has smaller words. */
const SMALL_HEIGHT = 15;

export function draw(context: CanvasRenderingContext2D, scene: Scene, palette: Palette): void {
  const { layout, view } = scene;
  const plot = layout.width - layout.gutter;
  const marks = ticks(view, plot);
  context.clearRect(0, 0, layout.width, scene.visible);
  context.textBaseline = "middle";
  context.save();
  context.beginPath();
  context.rect(0, AXIS, layout.width, scene.visible - AXIS);
  context.clip();
  context.translate(0, -scene.top);
  drawHeadings(context, scene, palette);
  const isShown = (y: number, height: number) =>
    y + height >= scene.top + AXIS - 20 && y <= scene.top + scene.visible + 20;
  const rows = layout.lanes.map((row, index) => ({ row, index })).filter(({ row }) => isShown(row.y, row.height + 40));
  for (const { row } of rows) drawTrack(context, layout, row, palette);
  clipPlot(context, layout, () => {
    drawGrid(context, scene, marks, palette);
    for (const { row } of rows) drawStopped(context, layout, row, palette);
    for (const box of layout.boxes) if (isShown(box.y, box.height)) drawBlock(context, scene, box, palette);
    for (const { row } of rows) drawCurves(context, scene, row, palette);
    drawMarks(context, scene, palette);
    drawBand(context, scene, palette);
  });
  for (const { row, index } of rows) drawLabel(context, scene, row, scene.notes[index] ?? "", palette);
  context.restore();
  drawAxis(context, scene, marks, palette);
}

function clipPlot(context: CanvasRenderingContext2D, layout: Layout, act: () => void): void {
  context.save();
  context.beginPath();
  context.rect(layout.gutter, 0, layout.width - layout.gutter, layout.height);
  context.clip();
  act();
  context.restore();
}

function drawAxis(context: CanvasRenderingContext2D, scene: Scene, marks: readonly Tick[], palette: Palette): void {
  const { layout } = scene;
  context.strokeStyle = palette.line;
  line(context, 0, AXIS - 0.5, layout.width, AXIS - 0.5);
  context.font = SMALL;
  context.textAlign = "center";
  const nowX = layout.nowX;
  for (const mark of marks) {
    const x = layout.gutter + mark.x;
    const half = context.measureText(mark.words).width / 2;
    if (x - half < layout.gutter || x + half > layout.width) continue;
    if (nowX !== null && Math.abs(x - nowX) < half + 26) continue;
    context.fillStyle = mark.isDay ? palette.text : palette.faint;
    context.fillText(mark.words, x, AXIS / 2);
  }
  if (nowX === null) return;
  context.font = BOLD;
  const width = context.measureText("now").width + 12;
  const x = Math.min(layout.width - width / 2, Math.max(layout.gutter + width / 2, nowX));
  context.fillStyle = palette.accent;
  context.beginPath();
  context.roundRect(x - width / 2, 4, width, AXIS - 9, 5);
  context.fill();
  context.fillStyle = palette.panel;
  context.fillText("now", x, AXIS / 2);
}

function drawBand(context: CanvasRenderingContext2D, scene: Scene, palette: Palette): void {
  if (!scene.band) return;
  const { layout, view } = scene;
  const [one, two] = [scene.band.from, scene.band.to].map(
    (at) => layout.gutter + xOf(view, layout.width - layout.gutter, at),
  ) as [number, number];
  const [x, width] = [Math.min(one, two), Math.max(1, Math.abs(two - one))];
  context.save();
  context.globalAlpha = BAND_TONE;
  context.fillStyle = palette.accent;
  context.fillRect(x, AXIS, width, layout.height);
  context.globalAlpha = 1;
  context.strokeStyle = palette.accent;
  line(context, x, AXIS, x, layout.height);
  line(context, x + width, AXIS, x + width, layout.height);
  context.restore();
}

function drawGrid(context: CanvasRenderingContext2D, scene: Scene, marks: readonly Tick[], palette: Palette): void {
  context.lineWidth = 1;
  for (const mark of marks) {
    context.strokeStyle = mark.isDay ? palette.strongLine : palette.line;
    const x = Math.round(scene.layout.gutter + mark.x) + 0.5;
    line(context, x, AXIS, x, scene.layout.height);
  }
}

function drawHeadings(context: CanvasRenderingContext2D, scene: Scene, palette: Palette): void {
  context.textAlign = "left";
  for (const heading of scene.layout.headings) {
    context.font = BOLD;
    context.fillStyle = palette.text;
    const name = cut(context, printable(heading.worker), scene.layout.gutter || scene.layout.width / 2);
    context.fillText(name, 2, heading.y + 2);
    if (heading.online) continue;
    const x = 2 + context.measureText(name).width + 8;
    context.font = SMALL;
    context.fillStyle = palette.failed;
    context.fillText("silent", x, heading.y + 2);
  }
}

function drawTrack(context: CanvasRenderingContext2D, layout: Layout, row: LaneBox, palette: Palette): void {
  context.fillStyle = row.lane.online ? palette.ground : mix(palette.failed, palette.ground, 0.05);
  context.beginPath();
  context.roundRect(layout.gutter, row.y, layout.width - layout.gutter, row.height, RADIUS);
  context.fill();
}

/** A drained device takes no new jobs: its future is hatched. */
function drawStopped(context: CanvasRenderingContext2D, layout: Layout, row: LaneBox, palette: Palette): void {
  if (!row.lane.drained && row.lane.online) return;
  const from = Math.max(layout.gutter, layout.nowX ?? layout.gutter);
  if (from >= layout.width) return;
  context.save();
  context.beginPath();
  context.rect(from, row.y, layout.width - from, row.height);
  context.clip();
  context.strokeStyle = mix(row.lane.drained ? palette.warn : palette.failed, palette.ground, 0.35);
  context.lineWidth = 1;
  for (let x = from - row.height; x < layout.width; x += 8) line(context, x, row.y + row.height, x + row.height, row.y);
  context.restore();
}

function drawLabel(
  context: CanvasRenderingContext2D,
  scene: Scene,
  row: LaneBox,
  note: string,
  palette: Palette,
): void {
  const { layout } = scene;
  const name = printable(row.lane.id === null ? "no device" : `${row.lane.resource} ${row.lane.id}`);
  context.font = FONT;
  context.textAlign = "left";
  context.fillStyle = palette.text;
  const two = !layout.isNarrow && row.height >= 32 && note !== "";
  const width = (layout.gutter || layout.width) - 22;
  const shown = cut(context, name, two || layout.isNarrow ? width : width * 0.55);
  context.fillText(shown, layout.isNarrow ? 2 : 12, two ? row.labelY - 7 : row.labelY);
  if (!note) return;
  const x = two ? 12 : layout.isNarrow ? 10 + context.measureText(shown).width : 18 + context.measureText(shown).width;
  context.font = SMALL;
  context.fillStyle = row.lane.drained ? palette.warn : palette.faint;
  const room = layout.isNarrow ? layout.width - x : layout.gutter - x - 4;
  context.fillText(cut(context, note, room), x, two ? row.labelY + 8 : row.labelY);
}

function drawBlock(context: CanvasRenderingContext2D, scene: Scene, box: BlockBox, palette: Palette): void {
  const { block } = box;
  if (block.kind === "merged") {
    drawMerged(context, box, palette);
    return;
  }
  const job = scene.answer.jobs[String(block.job)];
  const paint = palette.of(block, job);
  const isChosen = block.job === scene.selected;
  if (block.kind === "planned") drawPlanned(context, box, paint, palette);
  else {
    if (box.fade) drawLeft(context, box, paint, palette);
    shape(context, box.x, box.y, box.width, box.height);
    const isNarrow = block.kind === "past" && box.width < EDGE_WIDTH;
    context.fillStyle = isNarrow ? mix(paint.edge, palette.panel, NARROW_TONE) : paint.fill;
    context.fill();
    if (block.kind === "past" && box.height >= 8 && !isNarrow) {
      context.fillStyle = paint.edge;
      context.fillRect(box.x, box.y, Math.min(2.5, box.width), box.height);
    }
  }
  const end = drawEnd(context, box, block, palette);
  drawWords(context, scene, box, block, paint, end, palette);
  const isFocused = box.key === scene.focused;
  if (isChosen || isFocused || box.key === scene.hovered) outline(context, box, isFocused || isChosen, palette);
}

function drawLeft(context: CanvasRenderingContext2D, box: BlockBox, paint: Paint, palette: Palette): void {
  const { from, to } = box.fade!;
  const begin = box.x + box.width;
  const ground = palette.leftOf(paint);
  context.fillStyle = fading(context, from, to, ground);
  context.beginPath();
  context.roundRect(begin - RADIUS, box.y, to - begin + RADIUS, box.height, RADIUS);
  context.fill();
}

function drawPlanned(context: CanvasRenderingContext2D, box: BlockBox, paint: Paint, palette: Palette): void {
  const { from, to } = box.fade!;
  const width = Math.max(2, to - box.x);
  context.fillStyle = fading(context, from, to, paint.fill);
  shape(context, box.x, box.y, width, box.height);
  context.fill();
  context.save();
  context.strokeStyle = fading(context, from, to, mix(paint.edge, palette.panel, 0.6));
  context.setLineDash([3, 3]);
  context.lineWidth = 1;
  shape(context, box.x + 0.5, box.y + 0.5, Math.max(1, width - 1), box.height - 1);
  context.stroke();
  context.restore();
}

function fading(context: CanvasRenderingContext2D, from: number, to: number, ground: string): CanvasGradient {
  const gradient = context.createLinearGradient(from, 0, Math.max(to, from + 1), 0);
  gradient.addColorStop(0, ground);
  gradient.addColorStop(1, ground.replace(")", " / 0)"));
  return gradient;
}

function drawMerged(context: CanvasRenderingContext2D, box: BlockBox, palette: Palette): void {
  if (box.block.kind !== "merged") return;
  const paint = palette.of(box.block, undefined);
  context.fillStyle = paint.fill;
  context.fillRect(box.x, box.y, box.width, box.height);
  if (box.block.failed) {
    context.fillStyle = palette.failed;
    const share = Math.max(2, (box.block.failed / box.block.count) * box.height);
    context.fillRect(box.x, box.y + box.height - share, box.width, share);
  }
  context.font = box.height < SMALL_HEIGHT ? TINY : SMALL;
  context.textAlign = "center";
  const words = `${box.block.count} jobs`;
  if (box.height >= WORDS_HEIGHT && context.measureText(words).width + 6 < box.width) {
    context.fillStyle = palette.text;
    context.fillText(words, box.x + box.width / 2, box.y + box.height / 2);
  }
}

/** Mark a failed end, with its cause where there is room; return how much of the width the mark takes. */
function drawEnd(context: CanvasRenderingContext2D, box: BlockBox, block: JobBlock, palette: Palette): number {
  if (block.state !== "failed" || block.kind !== "past") return 0;
  const end = box.x + box.width;
  context.fillStyle = palette.failed;
  if (box.width < 14 || box.height < WORDS_HEIGHT) {
    const width = box.width < EDGE_WIDTH ? 0 : 3;
    context.fillRect(end - width, box.y, width, box.height);
    return width;
  }
  context.font = box.height < SMALL_HEIGHT ? TINY : BOLD;
  context.textAlign = "right";
  const cause = printable(block.cause ?? "");
  const long = `${cause} ✗`;
  const words = cause && context.measureText(long).width + 64 < box.width ? long : "✗";
  context.fillText(words, end - 4, box.y + box.height / 2 + 0.5);
  return context.measureText(words).width + 8;
}

function drawWords(
  context: CanvasRenderingContext2D,
  scene: Scene,
  box: BlockBox,
  block: JobBlock,
  paint: Paint,
  end: number,
  palette: Palette,
): void {
  const whole = block.kind === "past" ? box.x + box.width : Math.max(box.x + box.width, box.fade?.from ?? 0);
  const x = Math.max(box.x, scene.layout.gutter) + 6;
  const room = whole - x - 4 - end;
  if (box.height < WORDS_HEIGHT || room < WORDS_WIDTH - 8) return;
  const job = scene.answer.jobs[String(block.job)];
  context.font = box.height < SMALL_HEIGHT ? TINY : FONT;
  context.textAlign = "left";
  const words = wordsOf(context, block, printable(job?.name ?? job?.command ?? ""), room);
  const cutWords = cut(context, words, room);
  if (cutWords.length < Math.min(2, words.length)) return;
  // The words of a running block go on over what is left of it, where its own colour would be hard to read.
  const solid = block.kind === "running" ? box.x + box.width : whole;
  const y = box.y + box.height / 2 + 0.5;
  if (x + context.measureText(cutWords).width <= solid) {
    context.fillStyle = paint.text;
    context.fillText(cutWords, x, y);
    return;
  }
  for (const [from, to, ink] of [
    [box.x, solid, paint.text],
    [solid, whole + 80, palette.text],
  ] as const) {
    context.save();
    context.beginPath();
    context.rect(from, box.y, Math.max(0, to - from), box.height);
    context.clip();
    context.fillStyle = ink;
    context.fillText(cutWords, x, y);
    context.restore();
  }
}

/** Return the words in a block: the id, the name, and the part of the device if there is room for it too. */
function wordsOf(context: CanvasRenderingContext2D, block: JobBlock, name: string, room: number): string {
  const short = `${block.job} ${name}`.trim();
  if (block.amount >= 1) return short;
  const long = `${block.job} (${+block.amount.toFixed(2)}) ${name}`.trim();
  return context.measureText(long).width <= room ? long : short;
}

function outline(context: CanvasRenderingContext2D, box: BlockBox, isStrong: boolean, palette: Palette): void {
  const width = Math.max(box.width, (box.fade?.from ?? 0) - box.x);
  context.strokeStyle = isStrong ? palette.text : palette.strongLine;
  context.lineWidth = isStrong ? 2 : 1;
  shape(context, box.x, box.y, Math.max(3, width), box.height);
  context.stroke();
  context.lineWidth = 1;
}

function drawCurves(context: CanvasRenderingContext2D, scene: Scene, row: LaneBox, palette: Palette): void {
  if (!row.curves) return;
  const plot = scene.layout.width - scene.layout.gutter;
  const base = row.y + row.height + row.curves;
  for (const [points, ink] of [
    [row.lane.curves?.memory, palette.waiting],
    [row.lane.curves?.load, palette.running],
  ] as const) {
    if (!points?.length) continue;
    context.strokeStyle = ink;
    context.lineWidth = 1;
    context.beginPath();
    for (const [at, value] of points)
      context.lineTo(scene.layout.gutter + xOf(scene.view, plot, at), base - value * (row.curves - 2));
    context.stroke();
  }
}

function drawMarks(context: CanvasRenderingContext2D, scene: Scene, palette: Palette): void {
  const { nowX, height } = scene.layout;
  if (nowX === null) return;
  context.strokeStyle = palette.accent;
  context.lineWidth = 1.5;
  line(context, nowX, AXIS, nowX, height);
  context.lineWidth = 1;
}

function shape(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(RADIUS, width / 2, height / 2));
}

function line(context: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

/** Return as much of a text as fits, with an ellipsis where something was left out. */
function cut(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (room <= 0) return "";
  if (context.measureText(text).width <= room) return text;
  let low = 0;
  let high = Math.min(text.length, Math.ceil(room / 2));
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (context.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
