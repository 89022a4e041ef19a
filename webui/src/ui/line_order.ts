/** Moves of jobs in the line: sent to the daemon, and shown before its answer. */

import { change } from "../api/client";
import { type Move, reordered } from "./reorder";
import { attempt } from "./toast";

/** Send a move of one job; return whether it was done. */
export function moveJob(id: number, move: Move): Promise<boolean> {
  return attempt(async () => {
    const target = move.target === null ? null : String(move.target);
    await change("/v1/jobs/move", { selectors: [String(id)], where: move.where, target });
    return undefined;
  });
}

/** Return the ids as they are after a move. */
export function placed(ids: readonly number[], id: number, move: Move): number[] {
  const from = ids.indexOf(id);
  if (move.where === "first") return reordered(ids, from, 0);
  if (move.where === "last") return reordered(ids, from, ids.length);
  const target = ids.indexOf(move.target ?? -1);
  if (from < 0 || target < 0) return [...ids];
  return reordered(ids, from, move.where === "before" ? target : target + 1);
}
