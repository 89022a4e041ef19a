import { beforeAll, describe, expect, it, vi } from "vitest";
import { start as connect } from "../src/live/live";
import { LogLines } from "../src/ui/log/lines";

/** The daemon's end of the connection. */
class Socket {
  static last: Socket;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;

  constructor() {
    Socket.last = this;
  }

  send(): void {}
  close(): void {}
}

function tell(total: number | null): void {
  const line = { n: total, begin: 0, end: 5, spans: [["", "text"]], folded: 0 };
  const log = { job: 7, attempt: 1, stream: "log", is_new: true, first: 0, lines: [line], total, size: 5 };
  Socket.last.onmessage?.({ data: JSON.stringify({ log: { ...log, is_final: false, error: null } }) });
}

/** An answer about a log of which nobody counts the lines by himself. */
const UNCOUNTED = { lines: [], total: null, size: 100, indexed: 10, is_whole: false };

describe("the lines of a log", () => {
  const asked: string[] = [];

  beforeAll(() => {
    const page = { addEventListener: () => {} };
    vi.stubGlobal("document", page);
    vi.stubGlobal("window", page);
    vi.stubGlobal("location", { protocol: "http:", host: "127.0.0.1" });
    vi.stubGlobal("WebSocket", Socket);
    vi.stubGlobal("fetch", async (address: string) => {
      asked.push(address);
      return new Response(JSON.stringify(UNCOUNTED), { headers: { "Content-Type": "application/json" } });
    });
    vi.useFakeTimers();
    connect();
  });

  it("are heard from their start to their end, so a view that was never shown keeps nothing alive", () => {
    const lines = new LogLines({ job: 7, attempt: null, stream: null }, () => null);
    tell(1);
    expect(lines.state.value.isKnown).toBe(false);
    const stop = lines.start();
    tell(2);
    expect(lines.state.value.rows).toBe(2);
    stop();
    tell(3);
    expect(lines.state.value.rows).toBe(2);
  });

  it("are counted until their end, also where the daemon counts only what is asked for", async () => {
    const lines = new LogLines({ job: 7, attempt: null, stream: null }, () => null);
    const stop = lines.start();
    tell(null);
    lines.count();
    await vi.advanceTimersByTimeAsync(3_000);
    expect(asked.some((address) => address.includes("byte=99"))).toBe(true);
    expect(lines.state.value.counted).toBe(0.1);
    const before = asked.length;
    stop();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked.length).toBe(before);
  });
});
