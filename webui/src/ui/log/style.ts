/** The styles of a log as classes and colours. Only words that are known here become anything. */

export interface SpanStyle {
  class: string;
  color?: string;
  background?: string;
}

const ATTRIBUTES = new Set(["bold", "dim", "italic", "underline", "strike"]);
/** The colours that the theme names; the rest of the palette is computed. */
const NAMED = 16;
/** Styles that are remembered. */
const KNOWN_MAX = 2_000;
const STEPS = [0, 95, 135, 175, 215, 255];

const known = new Map<string, SpanStyle>();

/** Return how a span with the words `bold fg1 bg#00ff00` looks. */
export function spanStyle(words: string): SpanStyle {
  let found = known.get(words);
  if (!found) {
    found = read(words);
    if (known.size >= KNOWN_MAX) known.clear();
    known.set(words, found);
  }
  return found;
}

function read(words: string): SpanStyle {
  const parts = words.split(" ");
  const classes = parts.filter((word) => ATTRIBUTES.has(word));
  let fg = colourOf(parts, "fg");
  let bg = colourOf(parts, "bg");
  if (parts.includes("reverse")) [fg, bg] = [bg ?? "ground", fg ?? "text"];
  const style: SpanStyle = { class: "" };
  if (bg !== null) {
    if (bg.startsWith("#")) style.background = bg;
    else classes.push(`bg-${bg}`);
    // The text on a ground of the log's own choice stays readable, whatever the theme.
    if (fg === null) style.color = bg.startsWith("#") ? contrast(bg) : "";
  }
  if (fg !== null) {
    if (!fg.startsWith("#")) classes.push(`fg-${fg}`);
    else style.color = bg === null ? readable(fg) : fg;
  }
  if (!style.color) delete style.color;
  style.class = classes.join(" ");
  return style;
}

/** Return `0` to `15`, a colour such as `#00ff00`, or null. */
function colourOf(words: readonly string[], kind: "fg" | "bg"): string | null {
  for (const word of words) {
    if (!word.startsWith(kind)) continue;
    const value = word.slice(2);
    if (/^#[0-9a-f]{6}$/i.test(value)) return value;
    if (/^\d{1,3}$/.test(value) && Number(value) < 256)
      return Number(value) < NAMED ? String(Number(value)) : palette(Number(value));
  }
  return null;
}

/** Return a colour of the palette of 256 beyond the named ones. */
export function palette(index: number): string {
  if (index >= 232) return hex([8 + 10 * (index - 232), 8 + 10 * (index - 232), 8 + 10 * (index - 232)]);
  const at = index - NAMED;
  return hex([STEPS[Math.floor(at / 36)] ?? 0, STEPS[Math.floor(at / 6) % 6] ?? 0, STEPS[at % 6] ?? 0]);
}

function hex(parts: readonly number[]): string {
  return `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** Return a colour that is dark enough on the light theme, and light enough on the dark one. */
function readable(colour: string): string {
  return `light-dark(oklch(from ${colour} min(l, 0.52) c h), oklch(from ${colour} max(l, 0.72) c h))`;
}

function contrast(colour: string): string {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000000" : "#ffffff";
}
