/** What people see before the first job: the three commands that start. */

import { maySubmit } from "../session";
import { Copy } from "./parts";

const COMMANDS: readonly [string, string][] = [
  ["grass enqueue python train.py", "runs a command as soon as there is room"],
  ["grass enqueue --gpu=1 python train.py", "gives it one GPU; --gpu=0.5 shares one"],
  ['grass sweep "python train.py --lr {lr}" -p lr 0.1 0.01 --gpu=1', "runs it once for every value"],
];

export function FirstCommands() {
  return (
    <section class="panel begin">
      <h2>Nothing has run here yet. Three commands start:</h2>
      <dl>
        {COMMANDS.map(([command, words]) => (
          <div key={command}>
            <dt>
              <code>{command}</code> <Copy text={command} />
            </dt>
            <dd class="faint">{words}</dd>
          </div>
        ))}
      </dl>
      {maySubmit.value ? (
        <p class="faint">
          Or <a href="/new">submit a job from this page</a>.
        </p>
      ) : null}
    </section>
  );
}
