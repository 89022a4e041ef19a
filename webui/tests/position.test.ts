import { describe, expect, it } from "vitest";
import { Position } from "../src/live/position";

describe("the position of a tab in the changes", () => {
  it("begins with the first hello and follows the frames", () => {
    const position = new Position();
    expect(position.greet("e1.40")).toBe(true);
    expect(position.heard).toBe("e1.40");
    position.reach(42);
    expect(position.heard).toBe("e1.42");
  });

  it("stays at the last frame when a connection is cut after its hello", () => {
    const position = new Position();
    position.greet("e1.40");
    expect(position.greet("e1.90")).toBe(false);
    expect(position.heard).toBe("e1.40");
    position.reach(95);
    expect(position.heard).toBe("e1.95");
  });

  it("is the daemon's after a reset and in another epoch", () => {
    const position = new Position();
    position.greet("e1.40");
    position.greet("e1.900");
    position.reset();
    expect(position.heard).toBe("e1.900");
    expect(position.greet("e2.3")).toBe(true);
    expect(position.heard).toBe("e2.3");
  });
});
