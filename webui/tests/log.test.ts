import { describe, expect, it } from "vitest";
import { markedIn } from "../src/pages/job/marked";
import { read, write } from "../src/pages/job/values";
import { statesOf, toggleState } from "../src/pages/jobs/query";
import { isSelected, NOTHING, select, selectedCount } from "../src/pages/jobs/selection";
import { LogPlace } from "../src/ui/log/place";
import { marks } from "../src/ui/log/search";
import { palette, spanStyle } from "../src/ui/log/style";
import { HEIGHT_MAX } from "../src/ui/virtual";

function place(total: number, viewport = 180): LogPlace {
  const made = new LogPlace(18);
  made.setViewport(viewport);
  made.setTotal(total);
  return made;
}

describe("the place in a log", () => {
  it("stays at the end while lines are added, and elsewhere stays where it is", () => {
    const log = place(100);
    expect([log.row, log.isAtEnd]).toEqual([90, true]);
    log.setTotal(150);
    expect(log.row).toBe(140);
    log.move(-36);
    log.setTotal(200);
    expect([log.row, log.isAtEnd]).toEqual([138, false]);
    log.move(10_000);
    expect([log.row, log.isAtEnd]).toEqual([190, true]);
  });

  it("reaches every line of a log that no browser can draw", () => {
    const log = place(40_000_000);
    expect(log.spacer).toBe(HEIGHT_MAX);
    log.toNative((HEIGHT_MAX - 180) / 2);
    expect(Math.abs(log.row - 20_000_000)).toBeLessThan(10);
    log.toRow(39_999_999);
    expect(log.isAtEnd).toBe(true);
    log.toRow(12_345_678, 6);
    expect(log.row).toBe(12_345_672);
    expect(log.range().count).toBeLessThan(80);
  });

  it("counts with the heights of broken lines", () => {
    const log = place(20);
    log.measured(19, 90);
    log.remeasure();
    expect([log.row, log.pixels]).toEqual([14, 0]);
    log.move(-18);
    expect([log.row, log.pixels]).toEqual([13, 0]);
  });
});

describe("the styles of a log", () => {
  it("become classes that are known, and nothing else", () => {
    expect(spanStyle("bold fg1")).toEqual({ class: "bold fg-1" });
    expect(spanStyle("url(x) fg999 bg#zzz position:fixed")).toEqual({ class: "" });
    expect(spanStyle("bg#00ff00")).toEqual({ class: "", background: "#00ff00", color: "#000000" });
    expect(palette(208)).toBe("#ff8700");
  });
});

describe("what a search marks", () => {
  it("is every place of a text, in any case if that is wanted", () => {
    const asked = { q: "loss", isRegex: false, ignoresCase: true };
    expect(marks("Loss 1, loss 2", asked, undefined)).toEqual([
      [0, 4],
      [8, 12],
    ]);
    expect(marks("😀 loss", { ...asked, isRegex: true }, [2, 6])).toEqual([[3, 7]]);
  });
});

describe("words of the address and of a query", () => {
  it("name lines", () => {
    expect(markedIn("#L12")).toEqual({ first: 12, last: 12 });
    expect(markedIn("#L40-L12")).toEqual({ first: 12, last: 40 });
    expect(markedIn("#main")).toBeNull();
  });

  it("name states, and keep every other word", () => {
    expect(statesOf("a state:failed,held b")).toEqual(["held", "failed"]);
    expect(toggleState("lr* state:failed since:2d", "failed")).toBe("lr* since:2d");
    expect(toggleState("lr*", "running")).toBe("state:running lr*");
  });
});

describe("a selection", () => {
  it("of all that match leaves out jobs that come later", () => {
    const all = select({ kind: "all", q: "", except: new Set(), total: 10, upto: 10 }, [3], false);
    expect([3, 4, 11].map((id) => isSelected(all, id))).toEqual([false, true, false]);
    expect(selectedCount(all)).toBe(9);
    expect(selectedCount(select(select(NOTHING, [1, 2], true), [1], false))).toBe(1);
  });
});

describe("options as texts", () => {
  it("are read as they are written", () => {
    for (const [name, value] of [
      ["command", ["python", "a b.py"]],
      ["require", { gpu: 0.5, cpu: 4 }],
      ["priority", 30],
      ["name", null],
      ["queue", "q"],
    ] as const)
      expect(read(name, write(name, value as never), value as never)).toEqual(value);
    expect(() => read("require", "gpu", { gpu: 1 })).toThrow("NAME=VALUE");
  });
});
