/** The screen Access: who may do what here, and what was done. */

import { useSignal } from "@preact/signals";
import { get } from "../../api/client";
import type { Schemas } from "../../api/types";
import { mayAdmin } from "../../session";
import { CheckField, held } from "../../ui/field";
import { clock, count, fullTime } from "../../ui/format";
import { useAnswer } from "../../ui/hooks";
import { Empty, PlainTable, Problem, Text } from "../../ui/parts";
import "./access.css";
import { NewCode } from "./new_code";
import { revoke } from "./revoke";

export type Token = Schemas["Token"];

/** Entries of the audit that are asked for at first, and with each "older". */
const ENTRIES = 100;
const ENTRIES_MAX = 10_000;

export default function Access() {
  if (!mayAdmin.value) return <Empty>This page needs the scope admin.</Empty>;
  return (
    <>
      <h1>Access</h1>
      <Tokens />
      <AuditTrail />
    </>
  );
}

function Tokens() {
  const asked = useSignal(0);
  const all = useSignal(false);
  const making = useSignal(false);
  const found = useAnswer<Schemas["Tokens"]>(`tokens ${asked.value}`, (signal) => get("/v1/tokens", {}, signal));
  const again = () => {
    asked.value++;
  };
  const tokens = (found.value?.tokens ?? []).filter((token) => all.value || token.live);
  return (
    <section class="panel" aria-labelledby="tokens-title">
      <div class="bar">
        <h2 id="tokens-title" class="grow">
          Tokens, codes and sessions
        </h2>
        <CheckField {...held(all)}>ended ones too</CheckField>
        <button
          type="button"
          class="primary"
          onClick={() => {
            making.value = true;
          }}
        >
          New code
        </button>
      </div>
      <Problem words={found.error} />
      <PlainTable heads={["Id", "Scope", "Kind", "Name", "Queues", "Jobs", "Made", "Until"]} last="Actions">
        {tokens.map((token) => (
          <TokenRow key={token.id} token={token} changed={again} />
        ))}
      </PlainTable>
      {found.value && tokens.length === 0 ? (
        <p class="faint">There is no token. Only the owner of this machine comes in.</p>
      ) : null}
      {making.value ? (
        <NewCode
          onClose={() => {
            making.value = false;
            again();
          }}
        />
      ) : null}
    </section>
  );
}

function kindOf(token: Token): string {
  return token.is_code ? "code" : token.page_of ? "session" : "token";
}

function TokenRow(props: { token: Token; changed: () => void }) {
  const { token } = props;
  return (
    <tr class={token.live ? "" : "ended"}>
      <td>
        <code>{token.id}</code>
      </td>
      <td>{token.scope}</td>
      <td>{kindOf(token)}</td>
      <td>
        <Text>{token.name}</Text>
      </td>
      <td>{token.queues ? <Text>{token.queues.join(", ")}</Text> : <span class="faint">all</span>}</td>
      <td>{count(token.jobs)}</td>
      <td title={fullTime(token.created)}>{clock(token.created)}</td>
      <td title={fullTime(token.ended ?? token.expires)}>
        {token.ended ? `ended ${clock(token.ended)}` : token.expires ? clock(token.expires) : "until revoked"}
      </td>
      <td>
        {token.live ? (
          <button
            type="button"
            class="danger"
            onClick={() =>
              void revoke(token).then((done) => {
                if (done) props.changed();
              })
            }
          >
            Revoke
          </button>
        ) : null}
      </td>
    </tr>
  );
}

function AuditTrail() {
  const last = useSignal(ENTRIES);
  const wanted = useSignal("");
  const asked = useSignal(0);
  const found = useAnswer<Schemas["Audit"]>(`audit ${last.value} ${asked.value}`, (signal) =>
    get("/v1/audit", { last: last.value }, signal),
  );
  const text = wanted.value.trim().toLowerCase();
  const entries = (found.value?.entries ?? []).filter(
    (entry) => !text || JSON.stringify(entry).toLowerCase().includes(text),
  );
  return (
    <section class="panel" aria-labelledby="audit-title">
      <div class="bar">
        <h2 id="audit-title" class="grow">
          Audit
        </h2>
        <input
          type="search"
          aria-label="Show only entries with this text"
          placeholder="token, path, queue…"
          value={wanted.value}
          onInput={(event) => {
            wanted.value = event.currentTarget.value;
          }}
        />
        <button
          type="button"
          onClick={() => {
            asked.value++;
          }}
        >
          Refresh
        </button>
      </div>
      <Problem words={found.error} />
      <PlainTable heads={["Time", "Caller", "From", "Request", "About", "Result"]}>
        {entries.toReversed().map((entry, index) => (
          <tr key={`${entry.at} ${index}`}>
            <td title={fullTime(new Date(entry.at * 1000))}>{clock(new Date(entry.at * 1000))}</td>
            <td>
              <Text>{[entry.who, entry.name].filter(Boolean).join(" · ")}</Text>
            </td>
            <td>
              <Text>{entry.peer}</Text>
            </td>
            <td class="mono">
              <Text>{`${entry.method} ${entry.path}`}</Text>
            </td>
            <td>
              <Text>{entry.about}</Text>
            </td>
            <td class={entry.result.startsWith("2") ? "" : "refused"}>{entry.result}</td>
          </tr>
        ))}
      </PlainTable>
      {(found.value?.entries.length ?? 0) >= last.value && last.value < ENTRIES_MAX ? (
        <button
          type="button"
          onClick={() => {
            last.value = Math.min(ENTRIES_MAX, last.value * 5);
          }}
        >
          Show older entries
        </button>
      ) : null}
    </section>
  );
}
