import { describe, expect, it } from "vitest";
import { limitBody, limitLine, limitWords } from "../src/pages/queues/limit_words";
import { EMPTY, jobBody, optionWords } from "../src/pages/submit/form";
import { isBegun, manyBody, manyLine, NO_SOURCE, rowsKindOf, values } from "../src/pages/submit/many";
import { queryOf, sweepLimits } from "../src/pages/sweeps/data";

describe("many jobs of one command", () => {
  it("splits values into words, and leaves ranges to the daemon", () => {
    expect(values('0.1 0.01, "a b" log:1e-5..1e-1:20')).toEqual(["0.1", "0.01", "a b", "log:1e-5..1e-1:20"]);
  });

  it("is a sweep with limits and exclusions, as a request and as typed", () => {
    const source = {
      ...NO_SOURCE,
      parameters: [
        { name: "lr", values: "1..3" },
        { name: "", values: "" },
      ],
      exclude: "lr=2\n",
      at_once: "2",
      max_fails: "1",
    };
    const body = manyBody("grid", { ...EMPTY, gpu: "1" }, "train {lr}", source);
    expect(body.grid).toEqual({ parameters: { lr: ["1..3"] }, exclude: ["lr=2"] });
    expect(body.sweep).toMatchObject({ at_once: 2, max_fails: 1 });
    expect(manyLine("grid", { ...EMPTY, gpu: "1" }, "train {lr}", source)).toBe(
      "grass sweep 'train {lr}' -p lr 1..3 --exclude lr=2 --sampling-mode grid --gpu=1 --at-once 2 --max-fails 1",
    );
    const twice = { ...source, parameters: [source.parameters[0]!, source.parameters[0]!] };
    expect(() => manyBody("grid", EMPTY, "train {lr}", twice)).toThrow("twice");
    expect(() => manyBody("grid", EMPTY, "train {lr}", { ...source, at_once: "x" })).toThrow("at once");
  });

  it("is an array of words, or of a line for a shell", () => {
    const source = { ...NO_SOURCE, array: " 0-9:2%3 " };
    expect(manyBody("array", EMPTY, "echo {index}", source)).toMatchObject({
      array: "0-9:2%3",
      commands: [["echo", "{index}"]],
    });
    expect(manyBody("array", EMPTY, "echo {index} | cat", source).commands).toEqual(["echo {index} | cat"]);
    expect(manyLine("array", EMPTY, "echo {index}", source)).toBe("grass enqueue --array 0-9:2%3 -- echo '{index}'");
    expect(isBegun("array", "echo", NO_SOURCE)).toBe(false);
  });

  it("is a list, whose kind the name of the file tells", () => {
    expect(["a.CSV", "b.ndjson", "c.txt", "d"].map(rowsKindOf)).toEqual(["csv", "jsonl", "txt", null]);
    const source = { ...NO_SOURCE, rows: "a\n1", file: "x.csv" };
    expect(manyBody("each", EMPTY, "echo {a}", source).rows).toEqual({ text: "a\n1", kind: "csv", file: "x.csv" });
  });
});

describe("options of a job", () => {
  it("has a warning, a unique key and failures that are not tried again", () => {
    const form = { ...EMPTY, warn: "60s:TERM", unique: "nightly", no_retry_on: "2, 3", time_limit: "1h" };
    expect(jobBody(form)).toEqual({
      time_limit_s: 3600,
      warn_s: 60,
      warn_signal: "TERM",
      unique: "nightly",
      no_retry_on: ["2", "3"],
    });
    expect(optionWords(form).join(" ")).toBe("--time-limit 1h --warn 60s:TERM --no-retry-on 2,3 --unique nightly");
  });
});

describe("sweeps and limits in words", () => {
  it("says the limits of a sweep, and finds its jobs", () => {
    expect(sweepLimits({ at_once: 2, max_fails: 1, stopped: null })).toBe("2 at once, stops after 1 failure");
    expect(sweepLimits({ at_once: null, max_fails: null, stopped: null })).toBe("");
    expect(queryOf({ id: 3, name: "x" }, "")).toBe("sweep:3");
    expect(queryOf({ id: null, name: "x" }, "")).toBe("name:x");
  });

  it("says what a group holds, and reads a limit", () => {
    const limit = { group: "project:p", amounts: { gpu: 4 }, jobs: 10, held: { gpu: 1.5 }, running: 3 };
    expect(limitWords(limit)).toBe("gpu 1.5 of 4, 3 of 10 jobs");
    expect(limitBody("tag:team=a", "gpu=4, mem=64G jobs=2")).toEqual({
      group: "tag:team=a",
      amounts: { gpu: "4", mem: "64G" },
      jobs: 2,
    });
    expect(() => limitBody("project:p", "gpu")).toThrow("NAME=AMOUNT");
    expect(limitLine("project:p", "gpu=4")).toBe("grass limit project:p gpu=4");
  });
});
