/** The state of the table: its rows, the cursor, the selection, and when the order of rows is kept. */

import { computed, signal } from "@preact/signals";
import type { Job } from "../../api/types";
import { go, setQuery } from "../../router";
import { mayChange, maySubmit } from "../../session";
import { throttled } from "../../ui/hooks";
import type { Scroller } from "../../ui/scroller";
import { say } from "../../ui/toast";
import type { Column } from "./columns";
import { RANGE_MAX, Rows, type TableKey } from "./rows";
import { isSelected, NOTHING, type Selection, select, selectedCount } from "./selection";

/** How often the rows are asked for again while jobs change, and how often changes are counted while the order is kept. */
const REFRESH_MS = 250;
const PROBE_MS = 1_000;
/** How often the daemon is told which rows are visible. */
const WISH_MS = 150;
/** Rows do not move under a pointer that moved less than this long ago. */
const POINTER_MS = 1_500;

/** Return why a session does nothing with a job. */
export function notYours(job: Job): string {
  return `job ${job.id} was submitted by somebody else; this session changes its own jobs only`;
}

export class Table {
  readonly rows = new Rows();
  readonly key = signal<TableKey>({ q: "", sort: "id", order: "desc" });
  /** The row that keys act on. */
  readonly cursor = signal<number | null>(null);
  readonly selection = signal<Selection>(NOTHING);
  /** The ids of the rows that are visible: the daemon tells their changes. */
  readonly visibleIds = signal<readonly number[]>([]);
  /** Whether the order of rows is kept now: a click must meet the row that was aimed at. */
  readonly isKept = computed(
    () => this.selectedCount.value > 0 || (this.isFocused.value && this.cursor.value !== null) || this.isScrolled.value,
  );
  /** Whether the daemon was asked which jobs match, and the box that selects them all is ticked already. */
  readonly isSelectingAll = signal(false);
  readonly selectedCount = computed(() => selectedCount(this.selection.value));
  rowHeight = 30;
  scroller: Scroller | null = null;
  private readonly isFocused = signal(false);
  private readonly isScrolled = signal(false);
  private anchor: number | null = null;
  private visible = { first: 0, count: 0 };
  private pointerAt = 0;
  private later: ReturnType<typeof setTimeout> | undefined;
  private readonly refresh = throttled(() => this.rows.refresh(), REFRESH_MS);
  private readonly probe = throttled(() => void this.rows.probe(), PROBE_MS);
  private readonly wish = throttled(() => this.tellVisible(), WISH_MS);

  get maySelect(): boolean {
    return maySubmit.value;
  }

  setKey(key: TableKey): void {
    this.key.value = key;
    this.clear();
    this.cursor.value = null;
    this.scroller?.to(0);
    this.rows.setKey(key);
  }

  /** Hear which rows are drawn. */
  show(first: number, count: number): void {
    this.visible = { first, count };
    this.isScrolled.value = (this.scroller?.top.value ?? 0) > 0;
    // Whoever is back at the top sees what came meanwhile.
    if (this.rows.changed.value && !this.isKept.value) this.moved();
    this.rows.show(first, count);
    this.wish();
  }

  /** Jobs came, went or changed: show it, or count it where the order is kept. */
  moved(): void {
    if (this.isKept.value) {
      this.probe();
      return;
    }
    const wait = this.pointerAt + POINTER_MS - Date.now();
    if (wait <= 0) this.refresh();
    else if (this.later === undefined)
      this.later = setTimeout(() => {
        this.later = undefined;
        this.moved();
      }, wait);
  }

  /** Show the new order although something is selected or scrolled. */
  showChanges(): void {
    this.rows.refresh();
  }

  pointerMoved(): void {
    this.pointerAt = Date.now();
  }

  hasFocus(has: boolean): void {
    this.isFocused.value = has;
    if (!has && this.rows.changed.value) this.moved();
  }

  stop(): void {
    clearTimeout(this.later);
    this.rows.stop();
  }

  sortBy(column: Column): void {
    const { sort, order } = this.key.value;
    const first = column.order ?? "asc";
    const next = sort === column.sort ? (order === "asc" ? "desc" : "asc") : first;
    const isUsual = column.sort === "id" && next === "desc";
    setQuery({ sort: isUsual ? null : (column.sort ?? null), order: isUsual ? null : next });
  }

  // The cursor.

  pageRows(): number {
    return Math.max(1, Math.floor((this.scroller?.height.value ?? 600) / this.rowHeight) - 1);
  }

  move(by: number, extend = false): void {
    const from = this.cursor.value ?? (by > 0 ? -1 : 0);
    if (extend && this.maySelect && this.cursor.value !== null) void this.extend(this.cursor.value, from + by);
    this.moveTo(from + by);
  }

  moveTo(index: number): void {
    const { total } = this.rows.state.value;
    if (!total) return;
    const at = Math.max(0, Math.min(index, total - 1));
    this.cursor.value = at;
    this.scroller?.reveal(at * this.rowHeight, (at + 1) * this.rowHeight);
    document.querySelector<HTMLElement>(".grid")?.focus({ preventScroll: true });
  }

  /** Open the job under the cursor, also where its row has not come yet. */
  async openCursor(): Promise<void> {
    const at = this.cursor.value;
    const [job] = at === null ? [] : await this.rows.range(at, at).catch(() => []);
    if (job) go(`/jobs/${job.id}`);
  }

  toggleCursor(): void {
    if (this.cursor.value !== null && this.maySelect) void this.toggle(this.cursor.value, false);
  }

  /** Leave the cursor and the selection. */
  escape(): void {
    this.clear();
    this.cursor.value = null;
    if (this.rows.changed.value) this.moved();
  }

  // The selection.

  /** Tell whether a job is selected; a job of somebody else never is, also where all that match are. */
  isSelected(job: Job): boolean {
    return mayChange(job) && isSelected(this.selection.value, job.id);
  }

  /** Select a row or not; with `range`, all rows from the last one on. */
  async toggle(index: number, range: boolean): Promise<void> {
    const job = this.rows.row(index);
    if (!job) return;
    if (!range && !mayChange(job)) {
      say(notYours(job), true);
      return;
    }
    if (range && this.anchor !== null) {
      await this.extend(this.anchor, index);
      return;
    }
    this.anchor = index;
    this.selection.value = select(this.selection.value, [job.id], !this.isSelected(job));
  }

  private async extend(from: number, to: number): Promise<void> {
    const jobs = await this.rows.range(Math.max(0, from), Math.max(0, to)).catch(() => []);
    const ids = jobs.filter(mayChange).map((job) => job.id);
    if (Math.abs(to - from) >= RANGE_MAX)
      say(`a range has ${RANGE_MAX.toLocaleString("en")} jobs at most; select all that match instead`, true);
    this.selection.value = select(this.selection.value, ids, true);
  }

  /** Select all jobs that match now. */
  async selectAll(): Promise<void> {
    const { q } = this.key.value;
    this.isSelectingAll.value = true;
    const newest = await this.rows.newest().catch(() => null);
    const isMeant = this.isSelectingAll.value;
    this.isSelectingAll.value = false;
    if (newest && isMeant && q === this.key.value.q)
      this.selection.value = { kind: "all", q, except: new Set(), ...newest };
  }

  clear(): void {
    this.anchor = null;
    this.isSelectingAll.value = false;
    this.selection.value = NOTHING;
  }

  private tellVisible(): void {
    const { first, count } = this.visible;
    const ids: number[] = [];
    for (let index = first; index < first + count; index++) {
      const job = this.rows.row(index);
      if (job) ids.push(job.id);
    }
    this.visibleIds.value = ids;
  }
}
