import { describe, expect, it } from "vitest";
import { fill, POINTS_MAX, points, sweepLine, unknownNames, values } from "../src/pages/submit/grid";

describe("a grid", () => {
  it("reads words, quoted words and ranges", () => {
    expect(values('0.1 0.01, "a b" 1..4 9..5..2')).toEqual(["0.1", "0.01", "a b", "1", "2", "3", "4", "9", "7", "5"]);
  });

  it("has every combination once, the last name changing fastest", () => {
    const all = points([
      { name: "lr", values: "1 2" },
      { name: "bs", values: "8 16" },
    ]);
    expect(all.map((point) => `${point.lr} ${point.bs}`)).toEqual(["1 8", "1 16", "2 8", "2 16"]);
  });

  it("fills only its own names, so that {gpu} reaches the job", () => {
    expect(fill("train {lr} on {gpu} {lr}", { lr: "0.1" })).toBe("train 0.1 on {gpu} 0.1");
    expect(unknownNames("train {lr} {bs} {gpu}", [{ name: "lr", values: "1" }])).toEqual(["bs"]);
  });

  it("refuses names without values, and more points than it takes", () => {
    expect(() => points([{ name: "lr", values: " " }])).toThrow("lr has no values");
    expect(() =>
      points([
        { name: "x", values: `1..${POINTS_MAX}` },
        { name: "y", values: "1 2" },
      ]),
    ).toThrow("combinations");
  });

  it("can be typed", () => {
    expect(sweepLine("train {lr}", [{ name: "lr", values: "1 2" }], ["--gpu=1"])).toBe(
      "grass sweep 'train {lr}' -p lr 1 2 --gpu=1",
    );
  });
});
