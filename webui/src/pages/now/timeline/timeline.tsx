/** The device timeline: one lane per device, attempts as blocks, the past on the left and the plan on the right. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { addShortcuts } from "../../../keys";
import { go } from "../../../router";
import { remembered } from "../../../settings";
import { clock, duration } from "../../../ui/format";
import { Problem } from "../../../ui/parts";
import { AddressRange } from "./address";
import { type Camera, SPANS } from "./camera";
import { Card, sentence, useDiagnosis } from "./card";
import type { Direction } from "./layout";
import type { ColourBy } from "./paint";
import { colourBy, Picture } from "./picture";
import { Pointer } from "./pointer";
import type { View } from "./scale";
import "./timeline.css";
import { Twin } from "./twin";

/** How much a key zooms, and the part of the view by which Shift and an arrow pan. */
const ZOOM = 0.6;
const PAN = 1 / 8;
/** The width of the card beside the pointer, and how far from it. */
const CARD = 320;
const CARD_AWAY = 14;

/** A shorter range is named by its begin and its length. */
const SHORT_S = 600;

const ARROWS: Record<string, Direction> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

const isTable = remembered<boolean>("timeline.table", false, (value) =>
  typeof value === "boolean" ? value : undefined,
);

export function Timeline(props: { selected: number | null; onSelect: (job: number) => void }) {
  const picture = useMemo(() => new Picture(), []);
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const select = useRef(props.onSelect);
  select.current = props.onSelect;
  useEffect(() => {
    picture.selected.value = props.selected;
  }, [picture, props.selected]);
  useEffect(() => {
    const range = new AddressRange(picture.camera);
    const stop = picture.start(frame.current!, canvas.current!);
    const pointer = new Pointer(canvas.current!, picture, {
      onSelect: (job) => select.current(job),
      onOpen: (job) => go(`/jobs/${job}`),
      onRange: (view) => range.choose(view),
    });
    const remove = addShortcuts([
      { keys: ".", words: "Timeline: back to now", act: () => picture.camera.follow() },
      { keys: "+", words: "Timeline: zoom in", act: () => picture.camera.zoom(ZOOM, null) },
      { keys: "-", words: "Timeline: zoom out", act: () => picture.camera.zoom(1 / ZOOM, null) },
      { keys: "[", words: "Timeline: begin a range at the chosen job", act: () => picture.beginRange() },
      { keys: "]", words: "Timeline: end the range, and zoom to it", act: () => range.choose(picture.endRange()) },
    ]);
    return () => {
      remove();
      pointer.close();
      range.close();
      stop();
    };
  }, [picture]);
  const { whole } = picture.heights.value;
  return (
    <section class="panel timeline" aria-labelledby="timeline-title">
      <Tools camera={picture.camera} />
      <Problem words={picture.source.error.value} />
      <div class="timeline-place">
        <div
          ref={frame}
          class="timeline-frame"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys go from block to block of the picture
          tabIndex={0}
          role="application"
          aria-label="Devices over time. Arrow keys go from job to job, Space shows the log of a job below, Enter opens the job. The keys [ and ] begin and end a range of time to zoom to; a point goes back to now."
          onKeyDown={(event) => keyDown(event, picture, select.current)}
          onScroll={(event) => {
            picture.top.value = event.currentTarget.scrollTop;
          }}
          onBlur={() => {
            picture.focused.value = null;
          }}
        >
          <div class="timeline-space" style={{ height: `${whole}px` }}>
            <canvas ref={canvas} />
          </div>
        </div>
        <Hovered picture={picture} />
      </div>
      <Spoken picture={picture} />
      <Table picture={picture} selected={props.selected} onSelect={props.onSelect} />
    </section>
  );
}

function keyDown(event: KeyboardEvent, picture: Picture, select: (job: number) => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const direction = ARROWS[event.key];
  const block = picture.focusedBox()?.block;
  if (direction && event.shiftKey) {
    const { from, to } = picture.camera.view.peek();
    picture.camera.pan((to - from) * PAN * (direction === "left" || direction === "up" ? -1 : 1));
  } else if (direction) picture.step(direction, event.currentTarget as HTMLElement);
  else if (event.key === "Escape" && picture.band.peek()) picture.band.value = null;
  else if (event.key === "Escape" && block) picture.focused.value = null;
  else if (event.key === " " && block && block.kind !== "merged") select(block.job);
  else if (event.key === "Enter" && block && block.kind !== "merged") go(`/jobs/${block.job}`);
  else return;
  event.preventDefault();
}

function rangeWords(view: View | null): string {
  if (!view) return "";
  const [from, to] = [new Date(view.from * 1000), new Date(view.to * 1000)];
  const isShort = view.to - view.from < SHORT_S;
  return isShort ? `${clock(from)}, ${duration(view.to - view.from)}` : `${clock(from)} to ${clock(to)}`;
}

/** What is shown, and in which colours. */
function Tools(props: { camera: Camera }) {
  const { camera } = props;
  const isHeld = camera.held.value !== null;
  const drag = "drag with Shift, or [ and ], for a range";
  return (
    <div class="timeline-tools">
      <h2 id="timeline-title">Devices</h2>
      <fieldset class="segments" aria-label="Time shown">
        <button
          type="button"
          title="Show as much as there is, and what is planned"
          aria-pressed={!isHeld && camera.chosen.value === null}
          onClick={() => camera.follow(null)}
        >
          Fit
        </button>
        {SPANS.map((each) => (
          <button
            key={each.words}
            type="button"
            title={`Show ${each.title}, and what is planned`}
            aria-pressed={!isHeld && camera.chosen.value === each.seconds}
            onClick={() => camera.follow(each.seconds)}
          >
            {each.words}
          </button>
        ))}
      </fieldset>
      <fieldset class="segments" aria-label="Zoom">
        <button
          type="button"
          title={`Zoom in (+, or the wheel; ${drag})`}
          aria-label="Zoom in"
          onClick={() => camera.zoom(ZOOM, null)}
        >
          +
        </button>
        <button type="button" title="Zoom out (-)" aria-label="Zoom out" onClick={() => camera.zoom(1 / ZOOM, null)}>
          −
        </button>
      </fieldset>
      {isHeld ? (
        <>
          <button type="button" class="back" title="Back to now (.)" onClick={() => camera.follow()}>
            Back to now
          </button>
          <span class="faint timeline-range">{rangeWords(camera.held.value)}</span>
        </>
      ) : null}
      <span class="grow" />
      <label class="inline">
        Colours{" "}
        <select
          value={colourBy.value}
          onChange={(event) => {
            colourBy.value = event.currentTarget.value as ColourBy;
          }}
        >
          <option value="state">by state</option>
          <option value="name">by name or sweep</option>
          <option value="queue">by queue</option>
        </select>
      </label>
      <button
        type="button"
        aria-pressed={isTable.value}
        title="Show the same as a table"
        onClick={() => {
          isTable.value = !isTable.value;
        }}
      >
        Table
      </button>
    </div>
  );
}

function Hovered(props: { picture: Picture }) {
  const { picture } = props;
  const at = picture.hovered.value;
  const answer = picture.source.shown.value?.answer;
  const lane = at && answer?.lanes[at.box.lane];
  const diagnosis = useDiagnosis(at?.box.block ?? null);
  if (!at || !answer || !lane) return null;
  const { block } = at.box;
  const job = block.kind === "merged" ? undefined : answer.jobs[String(block.job)];
  const left = Math.min(at.x + CARD_AWAY, Math.max(0, picture.size.value.width - CARD));
  const top = at.box.y + at.box.height - picture.top.value + CARD_AWAY / 2;
  return (
    <div class="timeline-card" style={{ left: `${left}px`, top: `${top}px` }}>
      <Card lane={lane} block={block} job={job} now={picture.camera.clock.value} diagnosis={diagnosis} />
    </div>
  );
}

/** Says the block that the arrow keys are at. */
function Spoken(props: { picture: Picture }) {
  const { picture } = props;
  const key = picture.focused.value;
  const answer = picture.source.shown.value?.answer;
  const box = key ? picture.focusedBox() : null;
  const lane = box && answer?.lanes[box.lane];
  const diagnosis = useDiagnosis(box?.block ?? null);
  const job = box && box.block.kind !== "merged" ? answer?.jobs[String(box.block.job)] : undefined;
  return (
    <div class="hidden" aria-live="polite">
      {box && lane ? sentence(lane, box.block, job, picture.camera.clock.peek(), diagnosis) : ""}
    </div>
  );
}

/** The table changes with the answers, not with every second. */
function Table(props: { picture: Picture; selected: number | null; onSelect: (job: number) => void }) {
  const shown = props.picture.source.shown.value;
  if (!shown) return null;
  const { answer } = shown;
  if (!answer.lanes.length) return <p class="faint">No machine has offered anything to run jobs on yet.</p>;
  return (
    <Twin
      answer={answer}
      view={props.picture.camera.view.peek()}
      now={answer.now}
      isShown={isTable.value}
      selected={props.selected}
      onSelect={props.onSelect}
    />
  );
}
