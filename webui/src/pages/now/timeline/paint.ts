/** The colours of blocks: by state, or by what the jobs share. */

import { colour } from "../../../ui/colours";
import type { Block, JobWords } from "./model";

export type ColourBy = "state" | "name" | "queue";

export interface Paint {
  fill: string;
  edge: string;
  text: string;
}

/** How much of a colour is in the ground of a past block, of what is left of a running one, and of a planned one. */
const PAST = 0.24;
const LEFT = 0.3;
const PLANNED = 0.13;
/** Hues of jobs that share a name or a queue: as many as eyes tell apart. */
const HUES = [212, 152, 32, 278, 344, 186, 84, 250, 12, 316, 56, 128];

type Rgb = [number, number, number];

function rgb(text: string): Rgb {
  const found = text.match(/[\d.]+/g)?.map(Number) ?? [];
  return [found[0] ?? 0, found[1] ?? 0, found[2] ?? 0];
}

/** Return a colour with `part` of the first and the rest of the second. */
export function mix(first: string, second: string, part: number): string {
  const [a, b] = [rgb(first), rgb(second)];
  return `rgb(${a.map((value, index) => Math.round(value * part + b[index]! * (1 - part))).join(" ")})`;
}

export function luminance(text: string): number {
  const [red, green, blue] = rgb(text).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Return black or white, whichever is easier to read on a colour. */
export function readable(ground: string): string {
  return luminance(ground) > 0.3 ? "rgb(6 16 12)" : "rgb(255 255 255)";
}

/** Return a number for a text, the same for the same text. */
export function hashOf(text: string): number {
  let hash = 7;
  for (const character of text) hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0;
  return hash;
}

function hueColour(text: string, isDark: boolean): string {
  const hue = HUES[hashOf(text) % HUES.length]!;
  const [saturation, light] = isDark ? [0.62, 0.66] : [0.6, 0.4];
  const amplitude = saturation * Math.min(light, 1 - light);
  const channel = (shift: number) => {
    const at = (shift + hue / 30) % 12;
    return Math.round(255 * (light - amplitude * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return `rgb(${channel(0)} ${channel(8)} ${channel(4)})`;
}

const BY_STATE: Record<string, string> = {
  running: "--running",
  placed: "--placed",
  suspended: "--held",
  succeeded: "--succeeded",
  failed: "--failed",
  cancelled: "--cancelled",
};

/** The colours of one drawing: asked for once, then looked up. */
export class Palette {
  readonly panel = colour("--panel");
  readonly ground = colour("--ground");
  readonly line = colour("--line");
  readonly strongLine = colour("--strong-line");
  readonly text = colour("--text");
  readonly faint = colour("--faint");
  readonly failed = colour("--failed");
  readonly accent = colour("--accent");
  readonly warn = colour("--warn");
  readonly running = colour("--running");
  readonly waiting = colour("--waiting");
  readonly isDark = luminance(this.panel) < 0.2;
  private readonly known = new Map<string, Paint>();

  constructor(readonly by: ColourBy) {}

  /** Return the colours of a block. */
  of(block: Block, job: JobWords | undefined): Paint {
    if (block.kind === "merged") return this.paint(`merged ${block.failed > 0}`, this.strongLine, 0.42);
    if (this.by !== "state" && job) {
      const shared = this.by === "queue" ? job.queue : (job.name ?? job.queue);
      const base = hueColour(shared, this.isDark);
      if (block.kind === "running") return this.paint(`running ${shared}`, base, 1);
      return this.paint(`${block.kind} ${shared}`, base, block.kind === "planned" ? 0.2 : 0.42);
    }
    const name = BY_STATE[block.state] ?? "--queued";
    if (block.kind === "planned") return this.paint("planned", this.waiting, PLANNED);
    return this.paint(`${block.kind} ${name}`, colour(name), block.kind === "running" ? 1 : PAST);
  }

  /** Return the ground of what is left of a running attempt. */
  leftOf(paint: Paint): string {
    return mix(paint.edge, this.panel, LEFT);
  }

  private paint(key: string, base: string, part: number): Paint {
    const found = this.known.get(key);
    if (found) return found;
    const fill = mix(base, this.panel, part);
    const made = { fill, edge: base, text: part === 1 ? readable(fill) : this.text };
    this.known.set(key, made);
    return made;
  }
}
