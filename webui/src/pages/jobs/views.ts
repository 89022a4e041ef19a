/** Views: a query, a sort and an order by a name. The address of the page is the view; names stay in this browser. */

import { remembered } from "../../settings";

export interface View {
  name: string;
  /** The part of the address behind `?`. */
  search: string;
}

/** The most views that a browser keeps, and the longest name. */
export const VIEWS_MAX = 50;
export const NAME_MAX = 60;

export const BUILT_IN: readonly View[] = [
  { name: "All jobs", search: "" },
  { name: "Not ended", search: "q=state%3Arunning%2Cplaced%2Cqueued%2Cwaiting%2Cheld" },
  { name: "Failed in the last day", search: "q=state%3Afailed+since%3A1d" },
  { name: "Longest first", search: "q=state%3Arunning&sort=duration&order=desc" },
];

function isView(value: unknown): value is View {
  const view = value as View | null;
  return typeof view?.name === "string" && typeof view.search === "string";
}

export const views = remembered<View[]>("views", [], (value) =>
  Array.isArray(value) ? value.filter(isView).slice(0, VIEWS_MAX) : undefined,
);

export function saveView(name: string, search: string): void {
  const others = views.value.filter((view) => view.name !== name);
  views.value = [...others, { name: name.slice(0, NAME_MAX), search }].slice(-VIEWS_MAX);
}

export function forgetView(name: string): void {
  views.value = views.value.filter((view) => view.name !== name);
}
