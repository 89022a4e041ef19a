/** The table that says what the picture says: for screen readers always, for everybody on request. */

import { printable } from "../../../ui/format";
import { type Mark, StateMark } from "../../../ui/parts";
import { timesOf } from "./card";
import { attempts } from "./layout";
import { blockKey, laneName, type TimelineAnswer } from "./model";
import type { View } from "./scale";

/** Rows of the table; the jobs screen has the rest. */
const ROWS = 150;

export function Twin(props: {
  answer: TimelineAnswer;
  view: View;
  now: number;
  isShown: boolean;
  selected: number | null;
  onSelect: (job: number) => void;
}) {
  const { answer, now } = props;
  const all = attempts(answer, props.view, now);
  const rest = all.length - Math.min(all.length, ROWS);
  return (
    <section
      class={props.isShown ? "twin scroll-x" : "twin hidden"}
      aria-label="The timeline as a table"
      tabIndex={props.isShown ? 0 : undefined}
    >
      <table class="plain">
        <caption>
          Attempts on each device, newest first
          {rest ? `; ${rest} more are in the picture only` : ""}
        </caption>
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col">Job</th>
            <th scope="col">When</th>
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {all.slice(0, ROWS).map(({ lane, block }) =>
            block.kind === "merged" ? (
              <tr key={blockKey(lane, block)}>
                <td>{printable(laneName(lane))}</td>
                <td>{block.count} short jobs</td>
                <td>{timesOf(block, now)}</td>
                <td>{block.failed ? `${block.failed} failed` : "ended"}</td>
              </tr>
            ) : (
              <tr key={blockKey(lane, block)} aria-current={block.job === props.selected}>
                <td>{printable(laneName(lane))}</td>
                <td>
                  <a
                    href={`/jobs/${block.job}`}
                    tabIndex={props.isShown ? 0 : -1}
                    onFocus={() => props.isShown && props.onSelect(block.job)}
                  >
                    {block.job} <bdi>{wordsOf(answer, block.job)}</bdi>
                  </a>
                </td>
                <td>{timesOf(block, now)}</td>
                <td>
                  {block.kind === "planned" ? "planned" : <StateMark state={block.state as Mark} />}
                  {block.cause ? ` ${printable(block.cause)}` : ""}
                </td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </section>
  );
}

function wordsOf(answer: TimelineAnswer, job: number): string {
  const words = answer.jobs[String(job)];
  return printable(words?.name ?? words?.command ?? "");
}
