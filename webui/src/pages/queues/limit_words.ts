/** Limits of groups, in words and as they are sent. */

import type { Schemas } from "../../api/types";
import { count, quote } from "../../ui/format";
import { words } from "../submit/times";

/** Return what a group holds now, of at most how much: `gpu 1 of 4, 2 of 10 jobs`. */
export function limitWords(limit: Schemas["Limit"]): string {
  const amounts = Object.entries(limit.amounts).map(([name, most]) => `${name} ${limit.held[name] ?? 0} of ${most}`);
  const running = `${count(limit.running)} of ${limit.jobs === null ? "any number of" : count(limit.jobs)} jobs`;
  return [...amounts, ...(limit.jobs === null && amounts.length ? [] : [running])].join(", ");
}

/** Return the request for a limit; the daemon reads the amounts. Raise for a word that is no NAME=AMOUNT. */
export function limitBody(group: string, holds: string): Record<string, unknown> {
  const amounts: Record<string, string> = {};
  let jobs: number | null = null;
  for (const word of words(holds)) {
    const at = word.indexOf("=");
    if (at < 1) throw new Error(`${JSON.stringify(word)} is not NAME=AMOUNT`);
    const [name, amount] = [word.slice(0, at), word.slice(at + 1)];
    if (name !== "jobs") amounts[name] = amount;
    else if (/^\d{1,9}$/.test(amount)) jobs = Number(amount);
    else throw new Error(`jobs: ${JSON.stringify(amount)} is not a whole number`);
  }
  return { group: group.trim(), amounts, ...(jobs === null ? {} : { jobs }) };
}

/** Return what to type for the same. */
export function limitLine(group: string, holds: string): string {
  return ["grass", "limit", group.trim(), ...words(holds)].map(quote).join(" ");
}
