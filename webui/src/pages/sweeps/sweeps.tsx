/** The screen Sweeps: every sweep with its progress. */

import { useSignal } from "@preact/signals";
import { get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { clock, count, fullTime, plural } from "../../ui/format";
import { useAnswer, useMoves } from "../../ui/hooks";
import { Empty, PlainTable, Problem, Text } from "../../ui/parts";
import { StateBar } from "./state_bar";
import "./sweeps.css";

/** The list is asked for again at most this often. */
const REFRESH_MS = 1_000;
const SHOWN = 100;

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
          or the <a href="/new?mode=grid">grid builder</a> of this page. Jobs that share a name are a sweep, too.
        </p>
      </Empty>
    );
  return (
    <>
      <h1>Sweeps</h1>
      <Problem words={found.error} />
      <div class="panel">
        <PlainTable heads={["Name", "Progress", "Ended", "Queue", "Begun"]}>
          {sweeps.map((sweep) => (
            <tr key={sweep.name}>
              <td>
                <a href={`/sweeps/${encodeURIComponent(sweep.name)}`}>
                  <Text>{sweep.name}</Text>
                </a>
              </td>
              <td>
                <StateBar counts={sweep.counts} />
              </td>
              <td>
                {count(sweep.ended)} of {plural(sweep.jobs, "job")}
              </td>
              <td>
                <Text>{sweep.queue}</Text>
              </td>
              <td title={fullTime(sweep.created)}>{clock(sweep.created)}</td>
            </tr>
          ))}
        </PlainTable>
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
