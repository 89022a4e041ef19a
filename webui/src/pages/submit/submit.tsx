/** The screen Submit: commands, an array, a list, a sweep, or a batch in GPUPeasy's text; with what would run, and where. */

import { useSignal } from "@preact/signals";
import { path, query, setQuery } from "../../router";
import { maySubmit } from "../../session";
import { useWish } from "../../ui/hooks";
import { Empty } from "../../ui/parts";
import { BatchForm } from "./batch_form";
import { CommandForm } from "./command_form";
import { ManyForm } from "./many_form";
import "./submit.css";

const MODES = { command: "Commands", array: "Array", each: "List", grid: "Sweep", batch: "Batch text" } as const;
type Mode = keyof typeof MODES;

export default function Submit() {
  useWish({ queues: true });
  const first = path.value === "/batchaddjobs" ? "batch" : query.value.get("mode");
  const mode = useSignal<Mode>(first !== null && first in MODES ? (first as Mode) : "command");
  const from = query.value.get("from");
  if (!maySubmit.value) return <Empty>This session may look, and not submit jobs.</Empty>;
  return (
    <>
      <div class="bar">
        <h1 class="grow">Submit</h1>
        <div class="tabs" role="tablist" aria-label="What to submit">
          {Object.entries(MODES).map(([key, words]) => (
            <button
              key={key}
              type="button"
              role="tab"
              aria-selected={mode.value === key}
              onClick={() => {
                mode.value = key as Mode;
                if (path.value === "/new") setQuery({ mode: key === "command" ? null : key });
              }}
            >
              {words}
            </button>
          ))}
        </div>
      </div>
      {mode.value === "command" ? <CommandForm key={from} from={from} /> : null}
      {mode.value === "batch" ? <BatchForm /> : null}
      {mode.value === "command" || mode.value === "batch" ? null : <ManyForm key={mode.value} kind={mode.value} />}
    </>
  );
}
