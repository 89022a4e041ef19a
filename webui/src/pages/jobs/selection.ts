/** Which jobs are selected: some by their ids, or all that match the query but some. */

export type Selection =
  | { kind: "some"; ids: ReadonlySet<number> }
  | {
      kind: "all";
      q: string;
      except: ReadonlySet<number>;
      /** How many jobs matched, and the newest of them: a job that comes later is not meant. */
      total: number;
      upto: number;
    };

export const NOTHING: Selection = { kind: "some", ids: new Set() };

export function isSelected(selection: Selection, id: number): boolean {
  return selection.kind === "some" ? selection.ids.has(id) : id <= selection.upto && !selection.except.has(id);
}

/** Return the selection with some jobs selected or not. */
export function select(selection: Selection, ids: Iterable<number>, wanted: boolean): Selection {
  const changed = new Set(selection.kind === "some" ? selection.ids : selection.except);
  const adds = (selection.kind === "some") === wanted;
  for (const id of ids) {
    if (adds) changed.add(id);
    else changed.delete(id);
  }
  return selection.kind === "some" ? { kind: "some", ids: changed } : { ...selection, except: changed };
}

export function selectedCount(selection: Selection): number {
  return selection.kind === "some" ? selection.ids.size : Math.max(0, selection.total - selection.except.size);
}
