/** Every screen, with its address. A screen is loaded when it is first shown. */

import type { ComponentType } from "preact";

export type ScreenProps = Record<string, string>;

export interface Screen {
  pattern: string;
  load: () => Promise<{ default: ComponentType<ScreenProps> }>;
}

export interface Place {
  address: string;
  words: string;
  keys: string;
  admin?: boolean;
  submit?: boolean;
}

/** The entries of the menu, and the shortcuts that lead there. */
export const PLACES: readonly Place[] = [
  { address: "/", words: "Now", keys: "g n" },
  { address: "/jobs", words: "Jobs", keys: "g j" },
  { address: "/sweeps", words: "Sweeps", keys: "g s" },
  { address: "/machines", words: "Machines", keys: "g m" },
  { address: "/queues", words: "Queues", keys: "g q" },
  { address: "/new", words: "Submit", keys: "g c", submit: true },
  { address: "/access", words: "Access", keys: "g a", admin: true },
];

export const SCREENS: readonly Screen[] = [
  { pattern: "/", load: () => import("./now/now") },
  { pattern: "/jobs", load: () => import("./jobs/jobs") },
  { pattern: "/jobs/:id", load: () => import("./job/job") },
  { pattern: "/sweeps", load: () => import("./sweeps/sweeps") },
  { pattern: "/sweeps/:name", load: () => import("./sweeps/sweep") },
  { pattern: "/machines", load: () => import("./machines/machines") },
  { pattern: "/queues", load: () => import("./queues/queues") },
  { pattern: "/new", load: () => import("./submit/submit") },
  { pattern: "/access", load: () => import("./access/access") },
  { pattern: "/gpupeasy", load: () => import("./gpupeasy/gpupeasy") },
  { pattern: "/batchaddjobs", load: () => import("./submit/submit") },
  { pattern: "/jobinfo/:id", load: () => import("./job/job") },
];
