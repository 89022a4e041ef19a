/** Says whether what is shown is up to date. */

import { state } from "../live/live";
import { clock } from "../ui/format";

export function Connection() {
  const { kind, since } = state.value;
  const text =
    kind === "live" ? "live" : kind === "connecting" ? "connecting" : `not live since ${clock(since)}, trying again`;
  return (
    <span class={`connection ${kind}`} role="status" title={kind === "live" ? "Changes show at once" : text}>
      <span aria-hidden="true" class="dot" />
      {text}
    </span>
  );
}
