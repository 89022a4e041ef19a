/** Requests to the daemon. The cookie is the browser's own: no secret is ever in this code's hands. */

import type { Answer, Asked } from "./answers";

/** A refusal, in the daemon's own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** How long a request may take before the page says that the daemon does not answer. */
const TIMEOUT_MS = 30_000;

export type QueryValues = Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>;

export function address(path: string, values: QueryValues = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Called when the daemon says that the session is over. */
let onSignedOut = (): void => {};

export function whenSignedOut(call: () => void): void {
  onSignedOut = call;
}

async function answer(promise: Promise<Response>): Promise<unknown> {
  let response: Response;
  try {
    response = await promise;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "the daemon does not answer; `grass start` starts it");
  }
  const text = await response.text();
  const document = parse(text);
  const refusal = (document as { error?: { message?: string } } | null)?.error;
  if (!response.ok || refusal) {
    if (response.status === 401) onSignedOut();
    throw new ApiError(response.status, refusal?.message ?? `${response.status} ${response.statusText}`);
  }
  return document;
}

function parse(text: string): unknown {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return text;
  }
}

function signalFor(given?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  return given ? AbortSignal.any([given, timeout]) : timeout;
}

/** Ask for a document. The path has to be in the OpenAPI document, and the type of the answer comes from there. */
export function get<const P extends string>(
  path: Asked<"get", P>,
  values: QueryValues = {},
  signal?: AbortSignal,
): Promise<Answer<"get", P>> {
  return answer(fetch(address(path, values), { signal: signalFor(signal) })) as Promise<Answer<"get", P>>;
}

/** Send a change, which has its key already. */
export function post<const P extends string>(
  path: Asked<"post", P>,
  body: Record<string, unknown> = {},
): Promise<Answer<"post", P>> {
  const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(fetch(path, { ...init, signal: signalFor() })) as Promise<Answer<"post", P>>;
}

/** Return a new key of a changing request: the daemon does the same key once, however often it is sent. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Send a change with a key of its own; a request without an answer is sent again with the same key. */
export async function change<const P extends string>(
  path: Asked<"post", P>,
  body: Record<string, unknown> = {},
): Promise<Answer<"post", P>> {
  const keyed = { ...body, key: newKey() };
  try {
    return await post<P>(path, keyed);
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) return post<P>(path, keyed);
    throw error;
  }
}

/** Return the sentence of an error for people. */
export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
