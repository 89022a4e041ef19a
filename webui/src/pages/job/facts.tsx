/** Every field of a job: what it was given, what it brought, and its runs. */

import type { ComponentChildren } from "preact";
import type { Job, State } from "../../api/types";
import { amounts, commandLine, fullTime, printable, where } from "../../ui/format";
import { Copy, StateMark, Text, Wide } from "../../ui/parts";
import type { JobDetails } from "./details";

/** Values of a result that are listed. */
const RESULTS_MAX = 500;
/** Ranges of jobs that are listed. */
const RANGES_MAX = 20;

const AFTER: Readonly<Record<string, string>> = {
  ok: "After success of",
  any: "After the end of",
  fail: "After a failure of",
};

export function Facts(props: { job: Job; details: JobDetails | null }) {
  const { job, details } = props;
  const result = flat(job.result);
  const parameters = Object.entries(job.parameters ?? {});
  const env = Object.entries(details?.env ?? {});
  return (
    <div class="facts-grid">
      <section class="panel">
        <h2>Job</h2>
        <dl class="facts-list">
          <Fact name="Command">
            <code>
              <Text>{commandLine(job)}</Text>
            </code>{" "}
            <Copy text={commandLine(job)} />
          </Fact>
          <Fact name="Name" text={job.name} />
          <Fact name="Project" text={job.project} />
          <Fact name="Queue" text={job.queue} />
          <Fact name="Submitted by" text={details?.by} />
          <Fact name="Priority" text={String(job.priority)} />
          <Fact name="Asks for" text={amounts(job.request)} />
          <Fact name="Runs on" text={[where(job.allocation), job.worker].filter(Boolean).join(" · ")} />
          <Fact name="Process" text={job.pid === null ? null : String(job.pid)} />
          <Fact name="Attempt" text={job.tries > 1 ? `${job.attempt} of ${job.tries}` : String(job.attempt)} />
          {Object.entries(job.after ?? {}).map(([condition, ids]) => (
            <Fact key={condition} name={AFTER[condition] ?? condition}>
              <JobLinks ranges={ids} />
            </Fact>
          ))}
          <Fact name="Not before" text={fullTime(job.not_before)} />
          <Fact name="Submitted" text={fullTime(job.created)} />
          <Fact name="Started" text={fullTime(job.started)} />
          <Fact name="Ended" text={fullTime(job.finished)} />
          <Fact name="Wrapper" text={job.wrap} />
          <Fact name="Tells" text={job.notify?.join(", ")} />
        </dl>
      </section>
      <section class="panel">
        <h2>Folders</h2>
        <dl class="facts-list">
          <PathFact name="Runs in" path={job.cwd} />
          <PathFact name="Run folder" path={job.directory} />
          <PathFact name="Output file" path={job.output} />
          {Object.entries(job.files ?? {}).map(([name, value]) => (
            <Fact key={name} name={name} text={typeof value === "string" ? value : JSON.stringify(value)} />
          ))}
        </dl>
        {details && details.runs.length > 1 ? (
          <>
            <h2>Runs of this job</h2>
            <ul class="runs">
              {details.runs.map((each) => (
                <li key={each.id}>
                  <a href={`/jobs/${each.id}`} aria-current={each.id === job.id ? "true" : undefined}>
                    {each.id}
                  </a>{" "}
                  <StateMark state={each.state as State} />
                </li>
              ))}
            </ul>
          </>
        ) : null}
      </section>
      <Pairs title="Parameters" pairs={parameters} />
      <Pairs title="Result" pairs={result} />
      <Pairs title="Environment" pairs={env.map(([name, value]) => [name, value ?? "hidden"])} />
      <section class="panel whole">
        <details>
          <summary>The document of the API</summary>
          <Wide label="The document of the API">
            <pre>{printableLines(JSON.stringify(job, null, 2))}</pre>
          </Wide>
        </details>
      </section>
    </div>
  );
}

/** Return ids and ranges of jobs: a single job is a link. */
function JobLinks(props: { ranges: readonly string[] }) {
  const shown = props.ranges.slice(0, RANGES_MAX);
  return (
    <>
      {shown.map((range, at) => (
        <span key={range}>
          {at ? ", " : ""}
          {/^\d+$/.test(range) ? <a href={`/jobs/${range}`}>{range}</a> : <Text>{range}</Text>}
        </span>
      ))}
      {shown.length < props.ranges.length ? ` and ${props.ranges.length - shown.length} more` : ""}
    </>
  );
}

function Fact(props: { name: string; text?: string | null | undefined; children?: ComponentChildren }) {
  if (!props.text && !props.children) return null;
  return (
    <>
      <dt>{props.name}</dt>
      <dd>{props.children ?? <Text>{props.text}</Text>}</dd>
    </>
  );
}

function PathFact(props: { name: string; path: string | null | undefined }) {
  if (!props.path) return null;
  return (
    <Fact name={props.name}>
      <code>
        <Text>{props.path}</Text>
      </code>{" "}
      <Copy text={props.path} />
    </Fact>
  );
}

function Pairs(props: { title: string; pairs: readonly (readonly [string, string])[] }) {
  if (!props.pairs.length) return null;
  const shown = props.pairs.slice(0, RESULTS_MAX);
  return (
    <section class="panel">
      <h2>{props.title}</h2>
      <Wide label={`Table: ${props.title}`}>
        <table class="plain">
          <tbody>
            {shown.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">
                  <Text>{name}</Text>
                </th>
                <td class="mono">
                  <Text>{value}</Text>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {shown.length < props.pairs.length ? (
        <p class="faint">and {props.pairs.length - shown.length} more values</p>
      ) : null}
    </section>
  );
}

/** Return the values of a result by dotted names. */
export function flat(value: unknown, name = ""): [string, string][] {
  if (value === null || value === undefined) return [];
  if (typeof value !== "object") return [[name || "value", String(value)]];
  return Object.entries(value).flatMap(([key, each]) => flat(each, name ? `${name}.${key}` : key));
}

function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}
