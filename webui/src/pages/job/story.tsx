/** What happened to a job: its attempts, and every event. */

import { clock, duration, fullTime, printable, where } from "../../ui/format";
import { PlainTable, Text } from "../../ui/parts";
import type { Attempt, JobDetails } from "./details";
import { outcome } from "./sentence";

const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Return a time of today with its seconds, of another day with its date. */
function exact(time: string): string {
  const date = new Date(time);
  return date.toDateString() === new Date().toDateString() ? seconds.format(date) : clock(date);
}

export function Story(props: { details: JobDetails; id: number }) {
  const { attempts, story } = props.details;
  return (
    <div class="story">
      {attempts.length ? (
        <section class="panel">
          <h2>Attempts</h2>
          <PlainTable heads={["No", "Where", "Started", "Took", "Outcome"]} last="Log">
            {[...attempts].reverse().map((each) => (
              <AttemptRow key={each.number} attempt={each} id={props.id} />
            ))}
          </PlainTable>
        </section>
      ) : null}
      <section class="panel">
        <h2>Events</h2>
        <ol class="events">
          {[...story].reverse().map((event) => (
            <li key={`${event.at} ${event.kind} ${event.detail}`}>
              <time title={fullTime(event.at)}>{exact(event.at)}</time>
              <strong>{printable(event.kind)}</strong>
              <Text>{event.detail}</Text>
            </li>
          ))}
        </ol>
      </section>
    </div>
  );
}

function AttemptRow(props: { attempt: Attempt; id: number }) {
  const { attempt } = props;
  const took =
    attempt.started && attempt.ended ? (Date.parse(attempt.ended) - Date.parse(attempt.started)) / 1000 : null;
  return (
    <tr>
      <td>{attempt.number}</td>
      <td>
        <Text>{[where(attempt.allocation), attempt.worker].filter(Boolean).join(" · ")}</Text>
      </td>
      <td title={fullTime(attempt.started)}>{attempt.started ? exact(attempt.started) : ""}</td>
      <td>{took === null ? "" : duration(took)}</td>
      <td>
        <Text>{outcome(attempt) || (attempt.ended ? attempt.outcome : "runs")}</Text>
      </td>
      <td>
        <a href={`/jobs/${props.id}?attempt=${attempt.number}`}>Log</a>
      </td>
    </tr>
  );
}
