/** The screen Sweeps: every sweep with its progress. */

import { useSignal } from "@preact/signals";
import { get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { clock, count, fullTime, plural, printable } from "../../ui/format";
import { useAnswer, useMoves } from "../../ui/hooks";
import { Empty, PlainTable, Problem, Text } from "../../ui/parts";
import { sweepLimits } from "./data";
import { StateBar } from "./state_bar";
import "./sweeps.css";

/** The list is asked for again at most this often. */
const REFRESH_MS = 1_000;
const SHOWN = 50;

export default function Sweeps() {
  const turn = useMoves(REFRESH_MS);
  const shown = useSignal(SHOWN);
  const found = useAnswer<Schemas["SweepList"]>(`${turn} ${shown.value}`, (signal) =>
    get("/v1/sweeps", { limit: shown.value }, signal),
  );
  const sweeps = found.value?.sweeps ?? [];
  if (found.value && sweeps.length === 0)
    return (
      <Empty>
        <h1>No sweep yet</h1>
        <p>A sweep is a command with values for its parameters:</p>
        <p>
          <code>grass sweep "python train.py --lr {"{lr}"}" -p lr 0.1 0.01 0.001</code>
        </p>
        <p>
          or a <a href="/new?mode=grid">sweep</a>, an <a href="/new?mode=array">array</a> or a{" "}
          <a href="/new?mode=each">list</a> of this page. Jobs that share a name are shown here, too.
        </p>
      </Empty>
    );
  const objects = sweeps.filter((sweep) => sweep.id !== null);
  const groups = sweeps.filter((sweep) => sweep.id === null);
  return (
    <>
      <h1>Sweeps</h1>
      <Problem words={found.error} />
      <div class="panel">
        {objects.length ? <SweepRows sweeps={objects} /> : <p class="faint">No sweep yet.</p>}
        {groups.length ? (
          <>
            <h2>Other jobs that share a name</h2>
            <SweepRows sweeps={groups} />
          </>
        ) : null}
        {found.value?.next ? (
          <button
            type="button"
            onClick={() => {
              shown.value += SHOWN;
            }}
          >
            Show more
          </button>
        ) : null}
      </div>
    </>
  );
}

function SweepRows(props: { sweeps: readonly Schemas["SweepSummary"][] }) {
  return (
    <PlainTable heads={["Name", "Progress", "Ended", "Limits", "Queue", "Begun"]}>
      {props.sweeps.map((sweep) => (
        <tr key={sweep.id ?? sweep.name}>
          <td>
            <a href={`/sweeps/${sweep.id === null ? encodeURIComponent(sweep.name) : `sweep:${sweep.id}`}`}>
              <Text>{sweep.name}</Text>
            </a>
            {sweep.id === null ? null : <span class="faint"> sweep:{sweep.id}</span>}
          </td>
          <td>
            <StateBar counts={sweep.counts} />
          </td>
          <td>
            {count(sweep.ended)} of {plural(sweep.jobs, "job")}
          </td>
          <td title={printable(sweep.stopped ?? "")}>{sweepLimits(sweep)}</td>
          <td>
            <Text>{sweep.queue}</Text>
          </td>
          <td title={fullTime(sweep.created)}>{clock(sweep.created)}</td>
        </tr>
      ))}
    </PlainTable>
  );
}
