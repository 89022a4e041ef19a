/** How much of something is in use: a bar, and the numbers. */

import type { Allocation } from "../api/types";
import "./gauge.css";

export interface Use {
  name: string;
  used: number;
  whole: number;
  /** The part of it that programs outside of Grass use. */
  others: number;
}

function sum(amount: number | Record<string, number> | undefined): number {
  if (amount === undefined) return 0;
  return typeof amount === "number" ? amount : Object.values(amount).reduce((all, each) => all + each, 0);
}

/** Return what is in use of each resource; `others` is what programs outside of Grass use. */
export function usesOf(whole: Allocation, free: Allocation, others: Allocation | null = null): Use[] {
  return Object.entries(whole).map(([name, amount]) => {
    const all = sum(amount);
    return { name, whole: all, used: Math.max(0, all - sum(free[name])), others: sum(others?.[name]) };
  });
}

/** Resources that are counted in MiB. */
const MEMORY = new Set(["mem", "vram", "disk"]);

/** Return an amount as people read it: memory in GiB. */
export function amountWords(name: string, amount: number): string {
  if (MEMORY.has(name)) return amount >= 1024 ? `${+(amount / 1024).toFixed(1)} GiB` : `${Math.round(amount)} MiB`;
  return String(+amount.toFixed(2));
}

export function Gauge(props: { use: Use }) {
  const { name, used, whole, others } = props.use;
  const part = whole > 0 ? Math.min(1, used / whole) : 0;
  const foreign = whole > 0 ? Math.min(part, others / whole) : 0;
  const words = `${amountWords(name, used)} / ${amountWords(name, whole)}`;
  return (
    <span class="gauge" title={others ? `${amountWords(name, others)} of it by programs outside of Grass` : undefined}>
      <span class="gauge-name">{name}</span>
      <span class="gauge-track" aria-hidden="true">
        <span class={part >= 0.999 ? "gauge-fill full" : "gauge-fill"} style={{ width: `${part * 100}%` }} />
        {foreign ? <span class="gauge-fill foreign" style={{ width: `${foreign * 100}%` }} /> : null}
      </span>
      <span class="gauge-words">
        {words}
        <span class="hidden"> in use</span>
      </span>
    </span>
  );
}
