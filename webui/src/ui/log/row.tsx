/** One line of a log. Every text is a text node. */

import type { ComponentChildren } from "preact";
import type { LogLine, Span } from "../../live/live";
import { count, printable } from "../format";
import { type Asked, marks } from "./search";
import { spanStyle } from "./style";

export interface RowFlags {
  isMarked: boolean;
  isCurrent: boolean;
  isGap: boolean;
  /** What is searched for in this line, and where an expression matched. */
  asked: Asked | null;
  place: [number, number] | undefined;
}

export interface RowActions {
  mark: (line: number, extend: boolean) => void;
  showAll: (line: LogLine) => void;
}

export function LogRow(props: { line: LogLine | undefined; row: number; flags: RowFlags; act: RowActions }) {
  const { line, flags, act } = props;
  const number = line?.n ?? null;
  const classes = ["log-row"];
  if (flags.isMarked) classes.push("marked");
  if (flags.isCurrent) classes.push("current");
  if (flags.isGap) classes.push("gap");
  if (!line) classes.push("missing");
  return (
    <div class={classes.join(" ")} data-row={props.row}>
      {number === null ? (
        <span class="log-number" />
      ) : (
        <a
          class="log-number"
          href={`#L${number}`}
          tabIndex={-1}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey) return;
            event.preventDefault();
            getSelection()?.removeAllRanges();
            act.mark(number, event.shiftKey);
          }}
        >
          {number}
        </a>
      )}
      <span class="log-text">
        {line ? spans(line.spans, flags) : null}
        {line?.cut ? (
          <button type="button" class="log-note" onClick={() => act.showAll(line)}>
            {count(line.cut)} more characters, show all
          </button>
        ) : null}
        {line?.updates ? <span class="log-note">{count(line.updates)} updates folded</span> : null}
      </span>
      {flags.isGap ? <span class="log-skipped">lines were skipped here</span> : null}
    </div>
  );
}

/** Return the spans of a line, cut where what was searched for begins and ends. */
function spans(given: readonly Span[], flags: RowFlags): ComponentChildren {
  const text = given.map((span) => span[1]).join("");
  const found = flags.asked ? marks(text, flags.asked, flags.place) : [];
  if (!found.length) return given.length ? given.map((span, at) => styled(span, at, false)) : null;
  const parts: ComponentChildren[] = [];
  let begin = 0;
  for (const [style, words] of given) {
    let at = 0;
    for (const [from, to] of found) {
      const first = Math.max(at, Math.min(from - begin, words.length));
      const last = Math.max(first, Math.min(to - begin, words.length));
      if (first > at) parts.push(styled([style, words.slice(at, first)], parts.length, false));
      if (last > first) parts.push(styled([style, words.slice(first, last)], parts.length, true));
      at = Math.max(at, last);
    }
    if (at < words.length) parts.push(styled([style, words.slice(at)], parts.length, false));
    begin += words.length;
  }
  return parts;
}

function styled([words, text]: Span, key: number, isHit: boolean): ComponentChildren {
  const shown = printable(text);
  if (!words) return isHit ? <mark key={key}>{shown}</mark> : shown;
  const { class: name, color, background } = spanStyle(words);
  const style = { ...(color ? { color } : {}), ...(background ? { backgroundColor: background } : {}) };
  return isHit ? (
    <mark key={key} class={name}>
      {shown}
    </mark>
  ) : (
    <span key={key} class={name} style={style}>
      {shown}
    </span>
  );
}
