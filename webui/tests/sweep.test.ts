import { describe, expect, it } from "vitest";
import { axisOf, brushed, short } from "../src/pages/sweeps/axis";
import { best, bestSoFar, isLowerBetter, type Row, sorted, type Value } from "../src/pages/sweeps/data";

function row(id: number, values: Value[], finished: string | null = null): Row {
  const created = "2026-01-01T00:00:00Z";
  return { id, state: "succeeded", values, created, started: null, finished, seconds: null };
}

describe("the table of a sweep", () => {
  it("puts rows without a value last in either direction, and numbers in texts as numbers", () => {
    const rows = [row(1, [null]), row(2, [0.5]), row(3, [0.1])];
    expect(sorted(rows, 0, false).map((each) => each.id)).toEqual([3, 2, 1]);
    expect(sorted(rows, 0, true).map((each) => each.id)).toEqual([2, 3, 1]);
    const texts = [row(1, ["a10"]), row(2, ["a9"])];
    expect(sorted(texts, 0, false).map((each) => each.id)).toEqual([2, 1]);
  });

  it("finds the best, and the best so far in the order of the ends", () => {
    const rows = [
      row(1, [0.4], "2026-01-01T00:00:03Z"),
      row(2, [0.9], "2026-01-01T00:00:01Z"),
      row(3, [null], "2026-01-01T00:00:02Z"),
      row(4, [0.6], "2026-01-01T00:00:02Z"),
    ];
    expect(best(rows, 0, true)?.id).toBe(1);
    expect(best(rows, 0, false)?.id).toBe(2);
    expect(best([], 0, true)).toBeNull();
    expect(bestSoFar(rows, 0, true)).toMatchObject({ values: [0.9, 0.6, 0.4], bests: [0.9, 0.6, 0.4] });
    expect(bestSoFar(rows, 0, false).bests).toEqual([0.9, 0.9, 0.9]);
  });

  it("knows that a loss is better when lower", () => {
    expect(["val_loss", "accuracy", "rmse"].map(isLowerBetter)).toEqual([true, false, true]);
  });
});

describe("an axis", () => {
  const rows = [row(1, [1e-4, "adam"]), row(2, [1e-2, "sgd"]), row(3, [1, null])];

  it("places numbers by their logarithm where that is asked for", () => {
    const axis = axisOf({ name: "lr", group: "parameter", kind: "number", is_log: true }, 0, rows, true);
    expect(axis.place(1e-2)).toBeCloseTo(0.5);
    expect(axis.place(null)).toBeNull();
    expect(axis.ticks.map((tick) => tick.words)).toEqual(["1.0e-4", "0.001", "0.01", "0.1", "1"]);
  });

  it("places texts, and one value in the middle", () => {
    const texts = axisOf({ name: "opt", group: "parameter", kind: "text", is_log: false }, 1, rows, false);
    expect([texts.place("adam"), texts.place("sgd"), texts.place(null)]).toEqual([0, 1, null]);
    const one = axisOf({ name: "x", group: "parameter", kind: "number", is_log: false }, 0, [row(1, [5])], false);
    expect(one.place(5)).toBe(0.5);
  });

  it("holds the rows inside every brush", () => {
    const axis = axisOf({ name: "lr", group: "parameter", kind: "number", is_log: true }, 0, rows, true);
    expect([...brushed(rows, [axis], new Map([[0, [0.4, 1] as [number, number]]]))]).toEqual([2, 3]);
    expect(brushed(rows, [axis], new Map()).size).toBe(3);
  });

  it("writes numbers shortly", () => {
    expect([0, 12.34567, 1234567, 0.00012].map(short)).toEqual(["0", "12.35", "1.2e6", "1.2e-4"]);
  });
});
