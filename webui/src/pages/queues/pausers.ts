/** Who paused a queue: admins learn it from the audit. */

import { get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { mayAdmin } from "../../session";
import { useAnswer } from "../../ui/hooks";

/** How many entries are looked at; a pause that is older than these has no name. */
const LOOKED_AT = 500;

type Entry = Schemas["AuditEntry"];

/** Return the name of the user that paused each queue last, `*` for everything, as far as it is known. */
export function usePausers(paused: readonly string[]): ReadonlyMap<string, string> {
  const key = mayAdmin.value && paused.length ? paused.join("\n") : null;
  const found = useAnswer<Schemas["Audit"]>(key, (signal) => get("/v1/audit", { last: LOOKED_AT }, signal));
  return pausersIn(found.value?.entries ?? []);
}

export function pausersIn(entries: readonly Entry[]): ReadonlyMap<string, string> {
  const pausers = new Map<string, string>();
  for (const entry of [...entries].sort((a, b) => a.at - b.at))
    if (entry.path === "/v1/pause" && entry.about && entry.result.startsWith("200"))
      pausers.set(entry.about, entry.name);
  return pausers;
}
