import { describe, expect, it } from "vitest";
import { commandLine, commandWords, EMPTY, jobBody, lines } from "../src/pages/submit/form";
import { edited, prefilled, unseen } from "../src/pages/submit/prefill";

const NOBODY = { command_line: "", left_out: [], rerun_of: 5 };

describe("the form of a job", () => {
  it("sends only what was typed", () => {
    expect(jobBody(EMPTY)).toEqual({});
    expect(jobBody({ ...EMPTY, gpu: "0.5", others: "printer=1", env: "A=1\nB=x=y", priority: "40" })).toEqual({
      request: { gpu: "0.5", printer: "1" },
      env: [
        ["A", "1"],
        ["B", "x=y"],
      ],
      priority: 40,
    });
  });

  it("says what is wrong with what was typed", () => {
    expect(() => jobBody({ ...EMPTY, env: "novalue" })).toThrow("NAME=value");
    expect(() => jobBody({ ...EMPTY, priority: "high" })).toThrow("whole number");
  });

  it("shows what to type for the same", () => {
    const form = { ...EMPTY, queue: "q", gpu: "1", env: "A=b c" };
    expect(commandLine(form, ["python train.py"])).toBe(
      "grass enqueue --queue q --gpu=1 --env 'A=b c' -- python train.py",
    );
    expect(commandLine(EMPTY, ["a", "b"])).toBe("grass enqueue --stdin <<'END'\na\nb\nEND");
  });

  it("runs plain words without a shell, and anything else in one", () => {
    expect(commandWords("python train.py --lr 0.1")).toEqual(["--", "python", "train.py", "--lr", "0.1"]);
    expect(commandWords("run {gpu}")).toEqual(["--", "run", "{gpu}"]);
    expect(commandWords("echo {a,b}")).toEqual(["--shell", "--", "echo {a,b}"]);
    expect(commandWords("make | tee log")).toEqual(["--shell", "--", "make | tee log"]);
  });

  it("leaves out empty lines and remarks", () => {
    expect(lines("a\n\n # no\n b ")).toEqual(["a", "b"]);
  });
});

describe("a job that is submitted again", () => {
  const body = {
    command: ["sh", "-c", "a\nb"],
    queue: "q",
    request: { gpu: 1 },
    labels: ["a100"],
    cwd: { b64: "/w==" },
  };
  const submission = { ...NOBODY, body };

  it("stays as it was where nothing was edited", () => {
    const [form, command] = prefilled(submission);
    expect(edited(submission, form, command)).toEqual(body);
    expect(unseen(submission)).toEqual(["labels"]);
  });

  it("has each edit, and nothing that was taken out of the form", () => {
    const [form] = prefilled(submission);
    const now = edited(submission, { ...form, gpu: "", queue: "", name: "n" }, "python train.py");
    expect(now).toEqual({ command: ["python", "train.py"], shell: false, labels: ["a100"], cwd: body.cwd, name: "n" });
  });
});
