/** A ramp of colours for numbers, readable on both grounds: from blue over green to yellow. */

import { colour } from "../../ui/colours";

const STOPS: readonly [number, number, number][] = [
  [59, 82, 180],
  [38, 130, 142],
  [63, 160, 90],
  [206, 170, 30],
];

/** Return the colour of a place between 0 and 1; a missing value is grey. */
export function ramp(place: number | null): string {
  if (place === null) return colour("--strong-line");
  const at = Math.min(0.9999, Math.max(0, place)) * (STOPS.length - 1);
  const [one, two] = [STOPS[Math.floor(at)], STOPS[Math.floor(at) + 1]];
  if (!one || !two) return colour("--strong-line");
  const part = at % 1;
  const mixed = one.map((value, index) => Math.round(value + ((two[index] ?? value) - value) * part));
  return `rgb(${mixed.join(" ")})`;
}
