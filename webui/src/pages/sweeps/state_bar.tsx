/** A bar of the states of many jobs. */

import { STATES, type State } from "../../api/types";
import { count } from "../../ui/format";

export function StateBar(props: { counts: Partial<Record<State, number>> }) {
  const parts = STATES.toReversed()
    .map((state) => ({ state, count: props.counts[state] ?? 0 }))
    .filter((part) => part.count);
  const words = parts.map((part) => `${count(part.count)} ${part.state}`).join(", ");
  const total = parts.reduce((sum, part) => sum + part.count, 0);
  let at = 0;
  return (
    <svg class="state-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={words}>
      <title>{words}</title>
      {parts.map((part) => {
        const width = (100 * part.count) / total;
        at += width;
        return <rect key={part.state} class={`fill-${part.state}`} x={at - width} y={0} width={width} height={8} />;
      })}
    </svg>
  );
}
