/** What `GET /v1/timeline` answers: attempts as blocks in one lane per device. All times are seconds since the epoch. */

import type { Schemas } from "../../../api/types";

type AnyBlock = Schemas["TimelineBlock"];

/** An estimate: it holds most times between the first and the last; the middle is the likeliest. */
export type Estimate = readonly [low: number, likely: number, high: number];

/** One attempt; `to` is null while it runs. */
export type JobBlock = Pick<AnyBlock, "from" | "to" | "cause"> &
  Required<Pick<AnyBlock, "job" | "attempt" | "state" | "amount">> & {
    kind: Exclude<AnyBlock["kind"], "merged" | undefined>;
    starts?: Estimate | null;
    ends?: Estimate | null;
  };

/** Attempts that are too narrow to be drawn one by one. */
export type MergedBlock = Pick<AnyBlock, "from"> &
  Required<Pick<AnyBlock, "count" | "failed" | "amount">> & { kind: "merged"; to: number };

export type Block = JobBlock | MergedBlock;

/** Load and memory of a device over time, each from 0 to 1; a lane without them keeps no place for them. */
export interface Curves {
  load?: readonly (readonly [at: number, value: number])[];
  memory?: readonly (readonly [at: number, value: number])[];
}

/** A device, or with the id null the jobs of a worker that hold no device. */
export type Lane = Omit<Schemas["TimelineLane"], "blocks"> & { blocks: Block[]; curves?: Curves | null };

export type JobWords = Schemas["TimelineJob"];

/** `plan` is false while the forecast is being made: planned blocks and ends are missing. */
export type TimelineAnswer = Omit<Schemas["Timeline"], "lanes"> & { lanes: Lane[] };

/** Return a name for a lane, such as `box gpu 0`. */
export function laneName(lane: Lane): string {
  return lane.id === null ? `${lane.worker} without device` : `${lane.worker} ${lane.resource} ${lane.id}`;
}

/** Return what identifies a block while the timeline is asked for again and again. */
export function blockKey(lane: Lane, block: Block): string {
  const at = `${lane.worker}/${lane.resource}/${lane.id}`;
  return block.kind === "merged" ? `${at}/merged/${block.from}` : `${at}/${block.job}/${block.attempt}`;
}
