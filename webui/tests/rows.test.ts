import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Job } from "../src/api/types";
import { Rows } from "../src/pages/jobs/rows";

const KEY = { q: "", sort: "id", order: "desc" };

describe("the rows of the table", () => {
  let newest = 1_000;
  let release: (() => void) | null = null;
  let isHeld = false;

  /** The daemon: jobs 1 to `newest`, the newest first. */
  async function answer(address: string): Promise<Response> {
    const first = Number(new URL(address, "http://box").searchParams.get("first"));
    const ids = Array.from({ length: 150 }, (_, at) => newest - first - at).filter((id) => id > 0);
    const jobs = ids.map((id) => ({ id, attempt: 1, state: "running" }));
    const text = JSON.stringify({ jobs, first, count: newest, is_exact: true });
    if (isHeld) await new Promise<void>((go) => (release = go));
    return new Response(text, { headers: { "Content-Type": "application/json" } });
  }

  function known(rows: Rows): number[] {
    return Array.from({ length: newest }, (_, index) => rows.row(index)?.id).filter((id) => id !== undefined);
  }

  beforeEach(() => {
    newest = 1_000;
    isHeld = false;
    vi.stubGlobal("fetch", answer);
  });

  it("has every job once, also when jobs came while somebody scrolled", async () => {
    const rows = new Rows();
    rows.setKey(KEY);
    await vi.waitFor(() => expect(rows.row(0)?.id).toBe(1_000));
    newest = 1_030;
    rows.show(140, 40);
    await vi.waitFor(() => expect(rows.row(170)).toBeDefined());
    const ids = known(rows);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(rows.row(rows.indexOf(id) ?? -1)?.id).toBe(id);
  });

  it("keeps what was heard while an older answer was on its way", async () => {
    const rows = new Rows();
    isHeld = true;
    rows.setKey(KEY);
    await vi.waitFor(() => expect(release).not.toBeNull());
    rows.patch(new Map([[999, { id: 999, attempt: 1, state: "succeeded" } as Job]]));
    release?.();
    await vi.waitFor(() => expect(rows.row(1)?.state).toBe("succeeded"));
    expect(rows.row(0)?.state).toBe("running");
  });
});
