import { describe, expect, it } from "vitest";
import { lacking } from "../src/pages/now/lacking";
import { attempts, hit, laneBoxes, layOut, neighbour, reach, stack } from "../src/pages/now/timeline/layout";
import type { Block, JobBlock, Lane, TimelineAnswer } from "../src/pages/now/timeline/model";
import {
  fitting,
  following,
  ranged,
  readRange,
  spanOf,
  ticks,
  timeAt,
  writeRange,
  xOf,
  zoomed,
} from "../src/pages/now/timeline/scale";

const NOW = 1_000_000;

function past(job: number, from: number, to: number, amount = 1): JobBlock {
  return { kind: "past", job, attempt: 1, state: "succeeded", from: NOW + from, to: NOW + to, amount };
}

function lane(id: string | null, blocks: Block[], worth = 1): Lane {
  const resource = id === null ? "cpu" : "gpu";
  return { worker: "box", resource, id, worth, online: true, drained: false, others: 0, blocks };
}

function answerOf(lanes: Lane[]): TimelineAnswer {
  const known = { schema: 1, since: "e.1", is_whole: true, plan: true, is_plan_current: true, known_from: null };
  return { ...known, now: NOW, from: NOW - 3600, to: NOW + 3600, lanes, jobs: {} };
}

function laidOut(lanes: Lane[], width = 1128) {
  const view = { from: NOW - 500, to: NOW + 500 };
  return layOut(
    answerOf(lanes),
    lanes.map((each) => stack(each, NOW)),
    view,
    width,
    NOW,
  );
}

describe("the lanes of the timeline", () => {
  it("give each block the height of what it holds, and no two the same place", () => {
    const stacked = stack(lane("0", [past(1, -100, -10, 0.5), past(2, -90, -20, 0.25), past(3, -80, -50, 0.25)]), NOW);
    expect(stacked.blocks.map(({ offset, part }) => [offset, part])).toEqual([
      [0, 0.5],
      [0.5, 0.25],
      [0.75, 0.25],
    ]);
  });

  it("use a place again when its block has ended", () => {
    const stacked = stack(lane("0", [past(1, -100, -50, 0.5), past(2, -90, -20, 0.5), past(3, -40, -10, 0.5)]), NOW);
    expect(stacked.blocks.map((each) => each.offset)).toEqual([0, 0.5, 0]);
  });

  it("show jobs without a device by what they use together", () => {
    const stacked = stack(lane(null, [past(1, -100, -50, 2), past(2, -90, -20, 2)], 32), NOW);
    expect(stacked.blocks.map((each) => each.part)).toEqual([0.5, 0.5]);
  });

  it("draw plans smaller that want the same device at the same time", () => {
    const plan = (job: number, start: number, amount: number): JobBlock => ({
      ...past(job, start, 0, amount),
      kind: "planned",
      starts: [NOW + start, NOW + start, NOW + start],
      ends: [NOW + start + 50, NOW + start + 50, NOW + start + 50],
    });
    const parts = (...blocks: Block[]) =>
      stack(lane("0", blocks), NOW).blocks.map(({ offset, part }) => [offset, part]);
    expect(parts(plan(1, 10, 1), plan(2, 10, 0.5), plan(3, 10, 0.5), plan(4, 200, 1))).toEqual([
      [0, 0.5],
      [0.5, 0.25],
      [0.75, 0.25],
      [0, 1],
    ]);
    const next = stack(lane("0", [plan(1, 10, 0.5), plan(2, 10, 0.5), plan(3, 40, 0.5)]), NOW).blocks;
    expect(next.map(({ offset, part, until }) => [offset, part, until])).toEqual([
      [0, 0.5, NOW + 40],
      [0.5, 0.5, null],
      [0, 0.5, null],
    ]);
  });

  it("get lower when there are many, and keep a place for curves only where there are curves", () => {
    const few = laneBoxes([lane("0", [])], 1000).lanes[0]!;
    const many = laneBoxes(
      Array.from({ length: 40 }, (_, index) => lane(String(index), [])),
      1000,
    ).lanes[0]!;
    expect(many.height).toBeLessThan(few.height);
    expect(few.curves).toBe(0);
    expect(laneBoxes([{ ...lane("0", []), curves: { load: [[NOW, 0.5]] } }], 1000).lanes[0]!.curves).toBeGreaterThan(0);
  });
});

describe("the blocks of the timeline", () => {
  const running: JobBlock = { ...past(7, -200, 0), kind: "running", state: "running", to: null };
  const planned: JobBlock = {
    ...past(8, 100, 0),
    kind: "planned",
    state: "queued",
    to: null,
    starts: [NOW + 50, NOW + 100, NOW + 200],
    ends: [NOW + 250, NOW + 300, NOW + 400],
  };

  it("are drawn from when to when they ran, on the time scale", () => {
    const layout = laidOut([lane("0", [past(1, -400, -300)])]);
    const [box] = layout.boxes;
    expect(layout.gutter).toBe(128);
    expect([box!.x, box!.width]).toEqual([228, 100]);
  });

  it("grow until now while they run, and fade between the earliest and the latest end", () => {
    const ends: [number, number, number] = [NOW + 50, NOW + 100, NOW + 150];
    const [box] = laidOut([lane("0", [{ ...running, ends }])]).boxes;
    expect(box!.x + box!.width).toBe(628);
    expect(box!.fade).toEqual({ from: 678, to: 778 });
  });

  it("begin now at the earliest if they are planned", () => {
    const late = {
      ...planned,
      starts: [NOW - 90, NOW - 60, NOW - 30] as const,
      ends: [NOW, NOW + 40, NOW + 90] as const,
    };
    const [box] = laidOut([lane("0", [late])]).boxes;
    expect([box!.x, box!.width]).toEqual([628, 100]);
  });

  it("are found by the pointer, also beside a narrow one, and of two the upper one", () => {
    const layout = laidOut([lane("0", [past(1, -100, -99.9), running])]);
    const narrow = layout.boxes[1]!;
    expect(hit(layout, narrow.x + 0.5, narrow.y + 5)?.key).toBe(narrow.key);
    expect(hit(layout, 5, narrow.y + 5)).toBeNull();
    expect(hit(layout, narrow.x, 2)).toBeNull();
  });

  it("are reached by the arrow keys: along the lane, and the nearest of the next lane", () => {
    const layout = laidOut([
      lane("0", [past(1, -400, -300), running]),
      lane("1", [past(3, -450, -350), past(4, -90, -10)]),
    ]);
    const key = (job: number) => layout.boxes.find((box) => box.block.kind !== "merged" && box.block.job === job)!.key;
    expect(neighbour(layout, null, "left")?.key).toBe(key(7));
    expect(neighbour(layout, key(7), "left")?.key).toBe(key(1));
    expect(neighbour(layout, key(1), "left")?.key).toBe(key(1));
    expect(neighbour(layout, key(1), "down")?.key).toBe(key(3));
    expect(neighbour(layout, key(7), "down")?.key).toBe(key(4));
    expect(neighbour(layout, key(4), "up")?.key).toBe(key(7));
  });

  it("are in the table too, newest first, without what is out of view", () => {
    const answer = answerOf([lane("0", [past(1, -3000, -2000), past(2, -300, -200), running])]);
    const rows = attempts(answer, { from: NOW - 500, to: NOW + 500 }, NOW);
    expect(rows.map(({ block }) => block.kind !== "merged" && block.job)).toEqual([7, 2]);
  });

  it("have no gutter on a phone: the labels are above the lanes", () => {
    const layout = laidOut([lane("0", [running])], 360);
    expect(layout.gutter).toBe(0);
    expect(layout.lanes[0]!.labelY).toBeLessThan(layout.lanes[0]!.y);
  });
});

describe("the time scale", () => {
  it("keeps the second under the pointer when it zooms", () => {
    const view = zoomed({ from: 0, to: 1000 }, 0.5, 250);
    expect(view).toEqual({ from: 125, to: 625 });
    expect(xOf(view, 100, 250)).toBeCloseTo(25);
    expect(timeAt(view, 100, 25)).toBe(250);
  });

  it("follows the clock, with some of the future", () => {
    const view = following(3600, NOW);
    expect(view.from).toBe(NOW - 3600);
    expect(view.to).toBeGreaterThan(NOW);
    expect(spanOf(view)).toBeCloseTo(3600);
  });

  it("shows as much as there is, until somebody chooses a span", () => {
    const answer = answerOf([lane("0", [past(1, -30_000, -29_000), past(2, -1300, -900)])]);
    expect(reach(answer, NOW)).toEqual({ oldest: NOW - 1300, latest: null });
    expect(fitting(NOW - 1300, NOW + 400, NOW)).toEqual({ span: 1800, ahead: 420 });
    expect(fitting(NOW - 20, NOW + 90_000, NOW)).toEqual({ span: 600, ahead: 300 });
    expect(fitting(NOW - 20, NOW + 30, NOW)).toEqual({ span: 120, ahead: 31.5 });
    expect(fitting(null, null, NOW).span).toBe(600);
  });

  it("keeps a range in the address, and takes none that makes no sense", () => {
    const view = ranged(NOW, NOW - 60);
    expect(view).toEqual({ from: NOW - 60, to: NOW });
    const written = writeRange(view);
    expect(readRange(new URLSearchParams({ from: written.from!, to: written.to! }))).toEqual(view);
    expect(ranged(NOW, NOW + 1).to - ranged(NOW, NOW + 1).from).toBe(5);
    for (const wrong of ["", "from=1", "from=x&to=y", "from=9&to=3", "from=-5&to=1e99", "from=1&to=Infinity"])
      expect(readRange(new URLSearchParams(wrong))).toBeNull();
  });

  it("has ticks at round times of the clock on the wall, and names days", () => {
    const day = 86_400 * 20_000;
    const zone = () => 3600;
    const found = ticks({ from: day - 4 * 3600, to: day + 4 * 3600 }, 800, zone);
    expect(found.map((tick) => tick.words)).toContain("4 Oct");
    expect(found.every((tick) => (tick.at + 3600) % 3600 === 0)).toBe(true);
  });
});

describe("a job that waits for devices", () => {
  const device = (free: number, more = {}) => ({ resource: "gpu", free, online: true, drained: false, ...more });

  it("says what it needs and what is free, without devices that take no job", () => {
    const some = [device(0.5), device(0), device(1, { drained: true }), device(1, { online: false })];
    expect(lacking({ cpu: 4, gpu: 2 }, some)).toBe("needs gpu 2, 0.5 is free");
    expect(lacking({ cpu: 4, gpu: 0.5 }, some)).toBeNull();
    expect(lacking({ cpu: 4 }, some)).toBeNull();
  });
});
