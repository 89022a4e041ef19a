/** Who looks at this page, and what the session may do. A page shows no button that would be refused. */

import { computed, signal } from "@preact/signals";
import { ApiError, get, post, whenSignedOut, words } from "./api/client";
import type { Scope, Session } from "./api/types";
import { remembered } from "./settings";

/** The directory that the form offers for jobs: of the last `grass web` that opened this browser, or of the last job. */
export const directory = remembered<string>("directory", "", (value) =>
  typeof value === "string" ? value : undefined,
);

export type SessionState =
  | { kind: "asking" }
  | { kind: "in"; session: Session }
  | { kind: "out"; words: string | null }
  | { kind: "away"; words: string };

export const session = signal<SessionState>({ kind: "asking" });

const scope = computed<Scope | null>(() => (session.value.kind === "in" ? session.value.session.scope : null));
/** Whether the session may submit and change jobs. */
export const maySubmit = computed(() => scope.value === "submit" || scope.value === "admin");
/** Whether the session may change queues, machines and tokens. */
export const mayAdmin = computed(() => scope.value === "admin");

/** The directory of a job that names none; empty in the page of a broker elsewhere. */
export const usualDirectory = computed(() =>
  session.value.kind === "in" && typeof session.value.session.cwd === "string" ? session.value.session.cwd : "",
);

/** Whether the session may change a job: the daemon says it with the job. */
export function mayChange(job: { may_change?: boolean } | null | undefined): boolean {
  return job?.may_change === true;
}

/** Whether this is the owner's own page on the daemon's machine. */
export const isAtHome = computed(() => session.value.kind === "in" && typeof session.value.session.cwd === "string");

whenSignedOut(() => {
  if (session.value.kind === "in") session.value = { kind: "out", words: "this session has ended" };
});

/** Exchange the code of a login link for a session, or learn of the session that there is. */
export async function begin(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    // The code leaves the address before anything else happens: no history, no bookmark keeps it.
    history.replaceState(null, "", location.pathname + location.search);
    try {
      const begun = await post("/v1/session", { code });
      if (begun.opened_in) directory.value = begun.opened_in;
      session.value = { kind: "in", session: begun };
      return;
    } catch (error) {
      if (!(await learn())) session.value = { kind: "out", words: words(error) };
      return;
    }
  }
  await learn();
}

/** Ask whether the session still holds, after the live connection was lost; a daemon that is away is no answer. */
export async function recheck(): Promise<void> {
  try {
    await get("/v1/session");
  } catch {
    // `whenSignedOut` has heard a refusal; the connection says that the daemon is away.
  }
}

async function learn(): Promise<boolean> {
  try {
    session.value = { kind: "in", session: await get("/v1/session") };
    return true;
  } catch (error) {
    const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
    session.value = refused ? { kind: "out", words: null } : { kind: "away", words: words(error) };
    return false;
  }
}

/** End the session here and at the daemon. */
export async function signOut(): Promise<void> {
  await post("/v1/session/end");
  session.value = { kind: "out", words: "you have logged out" };
}
