/** Where everything of the timeline is drawn: arithmetic only, so that it can be tested without a browser. */

import { type Block, blockKey, type Lane, type TimelineAnswer } from "./model";
import { FITTING_MAX, type View, xOf } from "./scale";

/** Heights in pixels: of the axis, of a heading with a worker's name, between lanes, and of the curves below a lane. */
export const AXIS = 26;
const HEADING = 22;
const GAP = 7;
const CURVES = 12;
/** The height of a lane: with few devices, and with many. */
const LANE_MAX = 42;
const LANE_MIN = 20;
/** Lanes up to this many have the full height, lanes beyond twice as many the least. */
const LANES_ROOMY = 8;
/** The place of the labels on the left; a narrow screen has the labels above the lanes instead. */
const GUTTER = 128;
const NARROW = 640;
const LABEL_ABOVE = 17;
/** The lowest and the narrowest block that is drawn. */
const BLOCK_MIN = 4;
const WIDTH_MIN = 2;
/** Merged blocks are drawn at least this high, as a part of the lane: few short jobs are to be seen too. */
const MERGED_MIN = 0.4;
/** A planned block whose end is not known is drawn this wide, and fades. */
const UNKNOWN_PX = 70;
/** How far beside a block a click still counts, in pixels. */
const REACH = 3;

/** The blocks of a lane with the offset and the height of each as parts of the lane's; `until` is where another begins. */
export interface Stacked {
  blocks: readonly { block: Block; offset: number; part: number; until: number | null }[];
}

export interface LaneBox {
  lane: Lane;
  y: number;
  height: number;
  labelY: number;
  /** The curves below; 0 without data. */
  curves: number;
}

export interface BlockBox {
  key: string;
  block: Block;
  lane: number;
  x: number;
  y: number;
  width: number;
  height: number;
  /** What is left of a running attempt, or the unsure end of a planned one: it fades between the two. */
  fade: { from: number; to: number } | null;
}

export interface Layout {
  width: number;
  height: number;
  gutter: number;
  isNarrow: boolean;
  lanes: LaneBox[];
  headings: { worker: string; y: number; online: boolean }[];
  boxes: BlockBox[];
  /** Where now is drawn; null if it is out of view. */
  nowX: number | null;
}

/** Return when a block begins and ends, as it is known now. */
export function extent(block: Block, now: number): { from: number; to: number; isKnown: boolean } {
  if (block.kind === "merged") return { from: block.from, to: block.to, isKnown: true };
  if (block.kind === "past") return { from: block.from, to: block.to ?? now, isKnown: true };
  if (block.kind === "running") {
    const from = Math.min(block.from, now);
    return { from, to: Math.max(now, block.ends?.[1] ?? now), isKnown: Boolean(block.ends) };
  }
  // A plan whose time has come and that has not started yet begins now.
  const from = Math.max(now, block.starts?.[1] ?? block.from);
  const length = block.ends && block.starts ? Math.max(0, block.ends[1] - block.starts[1]) : 0;
  return { from, to: from + length, isKnown: length > 0 };
}

interface Span {
  block: Block;
  from: number;
  to: number;
  until?: number;
}

/** Give each block of a lane a place above the others that hold the lane at the same time. */
export function stack(lane: Lane, now: number): Stacked {
  const spans = lane.blocks.map((block) => ({ block, ...extent(block, now) })).sort((a, b) => a.from - b.from);
  const scale = lane.id === null ? peak(spans) : lane.worth || 1;
  const isPlanned = ({ block }: Span) => block.kind === "planned";
  const plans = yielding(spans.filter(isPlanned), scale);
  const planned = groups(plans).flatMap((group) => packed(group, Math.max(scale, peak(group))));
  return {
    blocks: [
      ...packed(
        spans.filter((span) => !isPlanned(span)),
        scale,
      ),
      ...planned,
    ],
  };
}

/**
 * End planned blocks where the next one begins that needs their place. Each block is where its job most likely starts
 * and ends, so two of them may overlap, though only one can have the device; the ends are the unsurest of these times.
 */
function yielding(spans: readonly Span[], scale: number): Span[] {
  const all = spans.map((span) => ({ ...span }));
  for (const [index, span] of all.entries()) {
    const before = all.slice(0, index).filter((each) => each.to > span.from && each.from < span.from);
    let held = before.reduce((sum, each) => sum + each.block.amount, 0);
    for (const each of before.sort((a, b) => a.to - b.to)) {
      if (held + span.block.amount <= scale + 1e-6) break;
      each.to = span.from;
      each.until = span.from;
      held -= each.block.amount;
    }
  }
  return all;
}

/** Split planned blocks that still overlap into groups: a group that wants more than there is is drawn smaller. */
function groups(spans: readonly Span[]): Span[][] {
  const found: Span[][] = [];
  let end = Number.NEGATIVE_INFINITY;
  for (const span of spans) {
    if (span.from >= end) found.push([]);
    found.at(-1)!.push(span);
    end = Math.max(end, span.to);
  }
  return found;
}

function packed(spans: readonly Span[], scale: number): Stacked["blocks"] {
  const open: { to: number; offset: number; part: number }[] = [];
  return spans.map(({ block, from, to, until }) => {
    for (let index = open.length - 1; index >= 0; index--) if (open[index]!.to <= from) open.splice(index, 1);
    const least = block.kind === "merged" ? MERGED_MIN : 0.02;
    const part = Math.min(1, Math.max(block.amount / scale, least));
    const offset = firstGap(open, part);
    if (block.kind !== "merged") open.push({ to: Math.max(to, from + 0.001), offset, part });
    return { block, offset, part, until: until ?? null };
  });
}

/** Return the most that is held at once: the lane of a pool shows how the jobs share what they use. */
function peak(spans: readonly Span[]): number {
  const moves = spans.flatMap(({ block, from, to }): [number, number][] => [
    [from, block.amount],
    [Math.max(to, from + 0.001), -block.amount],
  ]);
  moves.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let held = 0;
  let most = 0;
  for (const [, amount] of moves) {
    held += amount;
    most = Math.max(most, held);
  }
  return most || 1;
}

/** Return the lowest offset where `part` fits between what is held; where nothing fits, the one that covers least. */
function firstGap(open: readonly { offset: number; part: number }[], part: number): number {
  const edges = [0, ...open.map((each) => each.offset + each.part)].sort((a, b) => a - b);
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  for (const edge of edges) {
    const offset = Math.min(edge, Math.max(0, 1 - part));
    const covered = open.reduce((sum, each) => sum + overlap(offset, part, each.offset, each.part), 0);
    if (covered < 1e-6) return offset;
    if (covered < least - 1e-6) {
      least = covered;
      best = offset;
    }
  }
  return best;
}

function overlap(a: number, aPart: number, b: number, bPart: number): number {
  return Math.max(0, Math.min(a + aPart, b + bPart) - Math.max(a, b));
}

/** Return the lanes from top to bottom, with a heading per worker; the whole height is the last number. */
export function laneBoxes(lanes: readonly Lane[], width: number): Pick<Layout, "lanes" | "headings" | "height"> {
  const isNarrow = width < NARROW;
  const crowded = Math.min(1, Math.max(0, (lanes.length - LANES_ROOMY) / LANES_ROOMY));
  const height = Math.round(LANE_MAX - crowded * (LANE_MAX - LANE_MIN));
  const boxes: LaneBox[] = [];
  const headings: Layout["headings"] = [];
  let y = AXIS + 4;
  let worker: string | null = null;
  for (const lane of lanes) {
    if (lane.worker !== worker) {
      worker = lane.worker;
      headings.push({ worker, y: y + HEADING / 2, online: lane.online });
      y += HEADING;
    }
    const labelY = isNarrow ? y + LABEL_ABOVE / 2 : y + height / 2;
    if (isNarrow) y += LABEL_ABOVE;
    const curves = lane.curves?.load?.length || lane.curves?.memory?.length ? CURVES : 0;
    boxes.push({ lane, y, height, labelY, curves });
    y += height + curves + GAP;
  }
  return { lanes: boxes, headings, height: y + 4 };
}

/** Return where everything is drawn that `view` shows. */
export function layOut(
  answer: TimelineAnswer,
  stacks: readonly Stacked[],
  view: View,
  width: number,
  now: number,
): Layout {
  const isNarrow = width < NARROW;
  const gutter = isNarrow ? 0 : GUTTER;
  const plot = Math.max(1, width - gutter);
  const rows = laneBoxes(answer.lanes, width);
  const boxes: BlockBox[] = [];
  for (const [index, row] of rows.lanes.entries()) {
    for (const { block, offset, part, until } of stacks[index]?.blocks ?? []) {
      const x = (at: number) => gutter + xOf(view, plot, at);
      const box = ended(blockBox(row, block, offset, part, x, now), until === null ? null : x(until));
      const end = Math.max(box.x + box.width, box.fade?.to ?? 0);
      if (end < gutter || box.x > width) continue;
      boxes.push({ ...box, key: blockKey(row.lane, block), lane: index });
    }
  }
  const nowX = gutter + xOf(view, plot, now);
  return { ...rows, boxes, width, gutter, isNarrow, nowX: nowX >= gutter && nowX <= width ? nowX : null };
}

function blockBox(
  row: LaneBox,
  block: Block,
  offset: number,
  part: number,
  x: (at: number) => number,
  now: number,
): Omit<BlockBox, "key" | "lane"> {
  const { from, to, isKnown } = extent(block, now);
  const height = Math.max(BLOCK_MIN, part * row.height - (part < 1 ? 1 : 0));
  // Blocks stack from the bottom: a lane fills like a bar.
  const y = Math.max(row.y, row.y + row.height - offset * row.height - height);
  const begin = x(from);
  const solid = block.kind === "running" ? x(now) : x(to);
  const width = Math.max(WIDTH_MIN, solid - begin);
  return { block, x: begin, y, width, height, fade: fadeOf(block, x, begin, begin + width, isKnown, from) };
}

/** Return a block that ends where another begins. */
function ended<T extends Pick<BlockBox, "x" | "width" | "fade">>(box: T, end: number | null): T {
  if (end === null) return box;
  const width = Math.max(WIDTH_MIN, Math.min(box.width, end - box.x));
  const fade = box.fade && { from: Math.min(box.fade.from, end), to: Math.max(box.x + 1, Math.min(box.fade.to, end)) };
  return { ...box, width, fade };
}

/** Return where a block that has not ended fades: between its earliest and its latest end. */
function fadeOf(
  block: Block,
  x: (at: number) => number,
  begin: number,
  end: number,
  isKnown: boolean,
  from: number,
): BlockBox["fade"] {
  if (block.kind !== "running" && block.kind !== "planned") return null;
  if (!isKnown) return { from: end, to: end + (block.kind === "planned" ? UNKNOWN_PX : UNKNOWN_PX / 2) };
  const shift = block.kind === "planned" ? from - (block.starts?.[1] ?? from) : 0;
  const high = x((block.ends?.[2] ?? from) + shift);
  const low = Math.max(begin, x((block.ends?.[0] ?? from) + shift));
  if (block.kind === "running") return { from: Math.max(end, low), to: Math.max(end, high, low + 1) };
  return { from: low, to: Math.max(end, high, low + 1) };
}

/** Return the block at a place; of several the one that was drawn last. */
export function hit(layout: Layout, x: number, y: number): BlockBox | null {
  let near: BlockBox | null = null;
  for (let index = layout.boxes.length - 1; index >= 0; index--) {
    const box = layout.boxes[index]!;
    if (y < box.y - 1 || y > box.y + box.height + 1) continue;
    const end = Math.max(box.x + box.width, box.fade?.to ?? 0);
    if (x >= box.x && x <= end) return box;
    if (!near && x >= box.x - REACH && x <= end + REACH) near = box;
  }
  return near;
}

export type Direction = "left" | "right" | "up" | "down";

/** Return the block that an arrow key goes to: the next one of the lane, or the nearest one of the next lane. */
export function neighbour(layout: Layout, key: string | null, direction: Direction): BlockBox | null {
  const current = layout.boxes.find((box) => box.key === key);
  if (!current) return newest(layout);
  if (direction === "left" || direction === "right") {
    const lane = inLane(layout, current.lane);
    return lane[lane.indexOf(current) + (direction === "right" ? 1 : -1)] ?? current;
  }
  const step = direction === "down" ? 1 : -1;
  for (let lane = current.lane + step; lane >= 0 && lane < layout.lanes.length; lane += step) {
    const found = nearest(inLane(layout, lane), current);
    if (found) return found;
  }
  return current;
}

function inLane(layout: Layout, lane: number): BlockBox[] {
  return layout.boxes.filter((box) => box.lane === lane).sort((a, b) => a.x - b.x || b.y - a.y);
}

function nearest(boxes: readonly BlockBox[], current: BlockBox): BlockBox | null {
  const middle = (box: BlockBox) => box.x + box.width / 2;
  const distance = (box: BlockBox) => Math.abs(middle(box) - middle(current));
  return boxes.reduce<BlockBox | null>((best, box) => (best && distance(best) <= distance(box) ? best : box), null);
}

/** Return where an arrow key begins: at a running block, else at the last one. */
function newest(layout: Layout): BlockBox | null {
  return layout.boxes.find((box) => box.block.kind === "running") ?? layout.boxes.at(-1) ?? null;
}

/** Return when the oldest attempt of the last hours began, and when the last expected one ends. */
export function reach(answer: TimelineAnswer, now: number): { oldest: number | null; latest: number | null } {
  let oldest: number | null = null;
  let latest: number | null = null;
  for (const block of answer.lanes.flatMap((lane) => lane.blocks)) {
    const { from, to } = extent(block, now);
    if (to > now) latest = Math.max(to, latest ?? to);
    if (from < now && to > now - FITTING_MAX) oldest = Math.min(from, oldest ?? from);
  }
  return { oldest, latest };
}

/** Return the blocks of an answer with their lanes, newest first, for the table that says the same. */
export function attempts(answer: TimelineAnswer, view: View, now: number): { lane: Lane; block: Block }[] {
  return answer.lanes
    .flatMap((lane) => lane.blocks.map((block) => ({ lane, block })))
    .filter(({ block }) => {
      const { from, to } = extent(block, now);
      return to >= view.from && from <= view.to;
    })
    .sort((a, b) => extent(b.block, now).from - extent(a.block, now).from);
}
