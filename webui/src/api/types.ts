/** The documents of the daemon that several screens use, by the names of the OpenAPI document. */

import type { components } from "./schema";

export type Schemas = components["schemas"];

export type State = Schemas["State"];
export type Scope = Schemas["Token"]["scope"];
export type Progress = Schemas["Progress"];
export type Job = Schemas["Job"];
export type Queue = Schemas["Queue"];
export type Worker = Schemas["Worker"];
export type Session = Schemas["Session"];
/** Amounts by resource: of a pool a number, of devices an amount by id. */
export type Allocation = NonNullable<Job["allocation"]>;
export type Totals = Partial<Record<State, number>>;

/** The priority of a job that names none. */
export const NEUTRAL_PRIORITY = 30;

export const STATES: readonly State[] = [
  "running",
  "placed",
  "queued",
  "waiting",
  "held",
  "failed",
  "cancelled",
  "succeeded",
];

/** The states in which a job has ended. */
export const FINAL: ReadonlySet<State> = new Set<State>(["succeeded", "failed", "cancelled"]);
