import { describe, expect, it } from "vitest";
import { commandLine, EMPTY, jobBody } from "../src/pages/submit/form";
import { delays, duration, startTime, words } from "../src/pages/submit/times";

describe("times in a form", () => {
  it("reads durations as the command line does", () => {
    expect([duration("90", "x"), duration("1h30m", "x"), duration("2 d", "x"), duration("1.5m", "x")]).toEqual([
      90, 5_400, 172_800, 90,
    ]);
    for (const wrong of ["", "-1", "soon", "2 hours ago", "1h 30"]) expect(() => duration(wrong, "x")).toThrow("x:");
    expect([delays("30s..10m", "x"), delays("5", "x")]).toEqual([
      [30, 600],
      [5, 5],
    ]);
  });

  it("takes a time of day that is past as one of tomorrow", () => {
    const now = new Date(2026, 10, 18, 12, 0, 0);
    expect(startTime("18:00", "x", now)).toBe(new Date(2026, 10, 18, 18, 0, 0).getTime() / 1000);
    expect(startTime("08:00", "x", now)).toBe(new Date(2026, 10, 19, 8, 0, 0).getTime() / 1000);
    expect(startTime("2026-12-01T08:00", "x", now)).toBe(new Date(2026, 11, 1, 8, 0, 0).getTime() / 1000);
    expect(() => startTime("noon", "x")).toThrow("18:00");
  });

  it("sends when a job starts and when it is tried again, and shows what to type for it", () => {
    const form = { ...EMPTY, after: "12 train", delay: "2h", tries: "3", retry_on: "137, oom", retry_delay: "1m" };
    expect(jobBody(form)).toEqual({
      tries: 3,
      after: ["12", "train"],
      in_s: 7_200,
      retry_on: ["137", "oom"],
      retry_delay_s: [60, 60],
    });
    expect(commandLine(form, ["true"])).toBe(
      "grass enqueue --tries 3 --after 12 --after train --in 2h --retry-delay 1m --retry-on 137,oom -- true",
    );
    const limited = { ...EMPTY, time_limit: "2h", idle_limit: "30m", tags: "team=a" };
    expect(jobBody(limited)).toEqual({ time_limit_s: 7_200, idle_limit_s: 1_800, tags: { team: "a" } });
    expect(commandLine(limited, ["true"])).toBe("grass enqueue --time-limit 2h --idle-limit 30m --tag team=a -- true");
    expect(words(" a, b c ")).toEqual(["a", "b", "c"]);
  });
});
