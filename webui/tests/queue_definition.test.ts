import { describe, expect, it } from "vitest";
import { commandOf, EMPTY, queueWords, shellWords } from "../src/pages/queues/definition";
import { usesOf } from "../src/ui/gauge";

describe("a queue that is defined in the page", () => {
  it("is made by the words that a user would type", () => {
    const definition = {
      ...EMPTY,
      name: "big",
      worker: "box",
      gpu: "[2,3]",
      others: "printer=1",
      command: "python 'my train.py'",
    };
    expect(queueWords(definition)).toEqual([
      "big",
      "--gpu=[2,3]",
      "--printer=1",
      "--worker",
      "box",
      "--",
      "python",
      "my train.py",
    ]);
    expect(commandOf(definition)).toBe(
      "grass create-queue big '--gpu=[2,3]' --printer=1 --worker box -- python 'my train.py'",
    );
  });

  it("is defined at the broker if it is for all workers", () => {
    expect(queueWords({ ...EMPTY, name: "all", label: "a100" })).toEqual(["all", "--at-broker", "--label", "a100"]);
  });

  it("reads quotes as a shell does, and refuses one that does not end", () => {
    expect(shellWords(`a "b \\"c" 'd e'\\ f ''`)).toEqual(["a", 'b "c', "d e f", ""]);
    expect(() => shellWords("a 'b")).toThrow("does not end");
    expect(() => queueWords({ ...EMPTY, name: "q", others: "printer" })).toThrow("NAME=AMOUNT");
  });
});

describe("a gauge", () => {
  it("adds devices up, and shows what others use", () => {
    const uses = usesOf({ gpu: { 0: 1, 1: 1 }, cpu: 8 }, { gpu: { 0: 0.5, 1: 0 }, cpu: 8 }, { gpu: { 1: 1 } });
    expect(uses).toEqual([
      { name: "gpu", whole: 2, used: 1.5, others: 1 },
      { name: "cpu", whole: 8, used: 0, others: 0 },
    ]);
  });
});
