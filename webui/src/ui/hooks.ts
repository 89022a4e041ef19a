/** Small hooks that the screens share. */

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { words } from "../api/client";
import { moved, resets, want } from "../live/live";
import type { Wish } from "../live/subscription";

/** The time now, once a second while the page is visible: for durations that grow. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);

/** Hear what a screen wants for as long as the screen is there. */
export function useWish(wish: Wish): void {
  const text = JSON.stringify(wish);
  useEffect(() => want(JSON.parse(text) as Wish), [text]);
}

export interface Loaded<T> {
  value: T | null;
  error: string | null;
  loading: boolean;
}

/**
 * Ask for something whenever `key` changes, at most once at a time; keep what was there until the answer has come.
 * A newer key overtakes an older request. Without a key nothing is asked.
 */
export function useAnswer<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const loaded = useSignal<Loaded<T>>({ value: null, error: null, loading: key !== null });
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    loaded.value = { ...loaded.value, loading: true };
    latest
      .current(abort.signal)
      .then((value) => {
        if (!abort.signal.aborted) loaded.value = { value, error: null, loading: false };
      })
      .catch((error: unknown) => {
        if (!abort.signal.aborted) loaded.value = { ...loaded.value, error: words(error), loading: false };
      });
    return () => abort.abort();
  }, [key, loaded]);
  return loaded.value;
}

/** Return a function that calls `act` at once, then at most once each `ms`, the last call always. */
export function throttled(act: () => void, ms: number): () => void {
  let due: ReturnType<typeof setTimeout> | undefined;
  let last = 0;
  return () => {
    if (due !== undefined) return;
    const wait = last + ms - Date.now();
    if (wait <= 0) {
      last = Date.now();
      act();
    } else {
      due = setTimeout(() => {
        due = undefined;
        last = Date.now();
        act();
      }, wait);
    }
  };
}

/** Ask again when jobs have moved, not more often than `ms`; return a number that grows. */
export function useMoves(ms: number): number {
  const turn = useSignal(0);
  useEffect(
    () =>
      onMoves(
        throttled(() => {
          turn.value++;
        }, ms),
      ),
    [ms, turn],
  );
  return turn.value;
}

/** Call `act` whenever jobs have moved, or everything must be asked for again; call the answer to end it. */
export function onMoves(act: () => void): () => void {
  let isSubscribed = false;
  // A signal calls a new subscriber at once, when nothing has happened.
  const heard = () => {
    if (isSubscribed) act();
  };
  const stops = [moved.subscribe(heard), resets.subscribe(heard)];
  isSubscribed = true;
  return () => {
    for (const stop of stops) stop();
  };
}

const narrow = matchMedia("(max-width: 760px)");

/** Whether the window is as narrow as a phone. */
export const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => {
  isNarrow.value = narrow.matches;
});
