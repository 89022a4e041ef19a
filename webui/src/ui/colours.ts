/** The colours of the theme as a canvas takes them. */

import { signal } from "@preact/signals";
import { theme } from "../settings";

/** Grows when the theme changes: a canvas then draws again. */
export const themeChanges = signal(0);

const known = new Map<string, string>();
const forget = () => {
  known.clear();
  themeChanges.value++;
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
theme.subscribe(() => queueMicrotask(forget));

/** Return the colour of a custom property such as `--running`, as an rgb text. */
export function colour(name: string): string {
  const found = known.get(name);
  if (found) return found;
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  known.set(name, value);
  return value;
}
