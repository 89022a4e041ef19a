/** Every shortcut, in one table: the help sheet and the palette are made from it, and no two collide. */

export interface Shortcut {
  /** Such as `g j`, `/` or `K`; two keys are pressed one after the other. */
  keys: string;
  words: string;
  act: () => void;
}

/** How long after the first key of two the second one counts. */
const SECOND_KEY_MS = 1_200;

/** By keys, the newest last: the screen that is shown last has the keys, also while the one before it leaves. */
const shortcuts = new Map<string, Shortcut[]>();
let pending: { key: string; until: number } | null = null;

/** Add shortcuts while a screen is there; raise if two of them are on the same keys. */
export function addShortcuts(added: readonly Shortcut[]): () => void {
  const keys = added.map((each) => each.keys);
  const twice = keys.find((each, at) => keys.indexOf(each) !== at);
  if (twice !== undefined) throw new Error(`two shortcuts are on ${twice}`);
  for (const each of added) shortcuts.set(each.keys, [...(shortcuts.get(each.keys) ?? []), each]);
  return () => {
    for (const each of added) {
      const left = (shortcuts.get(each.keys) ?? []).filter((other) => other !== each);
      if (left.length) shortcuts.set(each.keys, left);
      else shortcuts.delete(each.keys);
    }
  };
}

function shortcut(keys: string): Shortcut | undefined {
  return shortcuts.get(keys)?.at(-1);
}

export function allShortcuts(): Shortcut[] {
  return [...shortcuts.keys()].map((keys) => shortcut(keys)).filter((each) => each !== undefined);
}

/** Tell whether a key is for what has the focus: a field that is typed into, or a link or button that is pressed. */
export function isForFocus(event: KeyboardEvent): boolean {
  const { target } = event;
  if (!(target instanceof HTMLElement)) return false;
  const isField = target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
  if (isField || target.isContentEditable) return true;
  return (event.key === "Enter" || event.key === " ") && target.closest("a, button, summary, input") !== null;
}

export function handleKey(event: KeyboardEvent): void {
  const palette = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" ? shortcut("Ctrl-K") : null;
  if (palette) {
    event.preventDefault();
    palette.act();
    return;
  }
  const isTaken = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isForFocus(event);
  if (isTaken || document.querySelector("dialog[open]")) return;
  const first = pending && Date.now() < pending.until ? pending.key : null;
  pending = null;
  const found = (first && shortcut(`${first} ${event.key}`)) || shortcut(event.key);
  if (found) {
    event.preventDefault();
    found.act();
  } else if ([...shortcuts.keys()].some((keys) => keys.startsWith(`${event.key} `))) {
    pending = { key: event.key, until: Date.now() + SECOND_KEY_MS };
  }
}
