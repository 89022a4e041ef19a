/** What a job lacks that waits for devices, in few words; `grass why` and the job's own page tell all of it. */

import type { Schemas } from "../../api/types";

export type DeviceUse = Pick<Schemas["Device"], "resource" | "free" | "online" | "drained">;

/** Return such as `needs gpu 2, 0.5 is free`; null if as much as it asks for is free together. */
export function lacking(request: Readonly<Record<string, unknown>>, devices: readonly DeviceUse[]): string | null {
  for (const [name, amount] of Object.entries(request)) {
    const usable = devices.filter((device) => device.resource === name && device.online && !device.drained);
    if (!usable.length || typeof amount !== "number") continue;
    const free = usable.reduce((sum, device) => sum + device.free, 0);
    if (free < amount) return `needs ${name} ${amount}, ${+free.toFixed(2)} is free`;
  }
  return null;
}
