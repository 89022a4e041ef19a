import { describe, expect, it } from "vitest";
import { moveTo, placeOf, reordered } from "../src/ui/reorder";

describe("a row that is put elsewhere", () => {
  const ids = [5, 6, 7, 8];

  it("goes before the first row or after the row above the gap", () => {
    expect(moveTo(ids, 2, 0)).toEqual({ where: "before", target: 5 });
    expect(moveTo(ids, 0, 4)).toEqual({ where: "after", target: 8 });
    expect(moveTo(ids, 3, 1)).toEqual({ where: "after", target: 5 });
  });

  it("does not move to the gaps beside it", () => {
    expect([moveTo(ids, 1, 1), moveTo(ids, 1, 2)]).toEqual([null, null]);
  });

  it("goes up past no row that it may not pass, and down past any", () => {
    const mayPass = (id: number) => id !== 6;
    expect(moveTo(ids, 3, 2, mayPass)).toEqual({ where: "after", target: 6 });
    expect([moveTo(ids, 3, 1, mayPass), moveTo(ids, 2, 0, mayPass)]).toEqual([null, null]);
    expect(moveTo(ids, 0, 4, mayPass)).toEqual({ where: "after", target: 8 });
  });

  it("is shown there before the daemon has answered", () => {
    expect(reordered(ids, 0, 3)).toEqual([6, 7, 5, 8]);
    expect(reordered(ids, 3, 0)).toEqual([8, 5, 6, 7]);
  });

  it("is still the same row when the list has changed during the drag", () => {
    const drag = { id: 7, before: 6 };
    expect(placeOf(ids, drag)).toEqual({ from: 2, gap: 1 });
    expect(placeOf([6, 7, 8], drag)).toEqual({ from: 1, gap: 0 });
    expect(placeOf([6, 7, 8], { id: 6, before: null })).toEqual({ from: 0, gap: 3 });
  });

  it("does not move when it or the row below the gap has left the list", () => {
    expect(placeOf([5, 6, 8], { id: 7, before: 6 })).toBeNull();
    expect(placeOf([5, 7, 8], { id: 7, before: 6 })).toBeNull();
  });
});
