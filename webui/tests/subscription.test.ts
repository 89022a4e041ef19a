import { describe, expect, it } from "vitest";
import type { State } from "../src/api/types";
import { alreadyHeard, JOBS_MAX, join } from "../src/live/subscription";

describe("the joined subscription of a tab", () => {
  it("has every job once, in order, and no more than the daemon takes", () => {
    const many = Array.from({ length: JOBS_MAX + 10 }, (_, index) => index + 1);
    const joined = join([{ jobs: [7, 3] }, { jobs: [3, ...many] }]);
    expect(joined.jobs.slice(0, 3)).toEqual([1, 2, 3]);
    expect(joined.jobs).toHaveLength(JOBS_MAX);
  });

  it("hears totals and devices if one screen wants them, and the log that was asked for last", () => {
    const log = (job: number) => ({ job, attempt: null, stream: null, lines: 100 });
    const joined = join([{ totals: true, log: log(1) }, { devices: true, log: log(2) }, {}]);
    expect(joined).toMatchObject({ totals: true, devices: true, queues: false, jobs: [], log: log(2) });
  });

  it("has after a loss the ended jobs that were heard before, without those of a screen that was opened meanwhile", () => {
    const before = join([{ jobs: [3, 4] }]);
    const wanted = join([{ jobs: [4, 9], look: true }]);
    const ended: { state: State } = { state: "failed" };
    const known = alreadyHeard(
      wanted,
      new Map([
        [3, ended],
        [4, ended],
      ]),
      before,
    );
    expect(known).toMatchObject({ jobs: [4], look: false });
    expect(
      alreadyHeard(
        wanted,
        new Map([
          [4, ended],
          [9, ended],
        ]),
        wanted,
      ),
    ).toEqual(wanted);
    // The worker and the log of a job that runs may have changed without a word.
    expect(
      alreadyHeard(
        wanted,
        new Map([
          [4, ended],
          [9, { state: "running" }],
        ]),
        wanted,
      ).jobs,
    ).toEqual([4]);
  });
});
