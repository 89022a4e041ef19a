import { describe, expect, it } from "vitest";
import { bytes, commandLine, duration, printable, where } from "../src/ui/format";

describe("what people read", () => {
  it("shows durations in the two largest units", () => {
    expect([5, 65, 3600, 4320, 90_000, 270_000].map(duration)).toEqual([
      "5 s",
      "1 min 5 s",
      "1 h",
      "1 h 12 min",
      "25 h",
      "3 d 3 h",
    ]);
  });

  it("quotes words that a shell would split", () => {
    expect(commandLine({ command: ["echo", "a b", "it's"], shell: false })).toBe(`echo 'a b' 'it'"'"'s'`);
    expect(commandLine({ command: ["a | b"], shell: true })).toBe("a | b");
  });

  it("shows control and direction characters instead of obeying them", () => {
    expect(printable("a\u001b[31mb\u202ec\u0000")).toBe("a\u241b[31mb\ufffdc\u2400");
  });

  it("names the devices of a slot, and a slot only where it has none", () => {
    expect(where({ slot: { "0": 1 }, gpu: { "0": 1, "1": 1 } })).toBe("gpu 0, 1");
    expect(where({ slot: { a: 1 }, cpu: 2 })).toBe("slot a");
  });

  it("shows sizes in binary units", () => {
    expect([12, 2048, 5 * 1024 ** 3].map(bytes)).toEqual(["12 B", "2.0 KiB", "5.0 GiB"]);
  });
});
