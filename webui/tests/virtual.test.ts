import { describe, expect, it } from "vitest";
import { HEIGHT_MAX, OVERSCAN, scaled, visibleRows } from "../src/ui/virtual";

describe("the rows of a long list that are drawn", () => {
  it("are the visible ones and some around them", () => {
    expect(visibleRows(3000, 600, 30, 100_000)).toEqual({ first: 100 - OVERSCAN, count: 20 + 2 * OVERSCAN });
  });

  it("stay within the list at both ends", () => {
    expect(visibleRows(0, 600, 30, 5)).toEqual({ first: 0, count: 5 });
    const end = visibleRows(100_000 * 30 - 600, 600, 30, 100_000);
    expect(end.first + end.count).toBe(100_000);
  });

  it("reach the last row of a list that is higher than a browser draws", () => {
    const { height, rowAt } = scaled(20, 40_000_000);
    expect(height).toBe(HEIGHT_MAX);
    expect(Math.round(rowAt(height))).toBe(40_000_000);
  });
});
