/** Shows the screen of the current address; loads its code when it is first needed. */

import { useSignal } from "@preact/signals";
import { type ComponentType, h } from "preact";
import { useEffect } from "preact/hooks";
import { words } from "../api/client";
import { state } from "../live/live";
import { SCREENS, type Screen, type ScreenProps } from "../pages/routes";
import { match, path } from "../router";
import { Empty, Problem } from "../ui/parts";

const loaded = new Map<Screen, ComponentType<ScreenProps>>();

function find(at: string): { screen: Screen; props: ScreenProps } | null {
  for (const screen of SCREENS) {
    const props = match(screen.pattern, at);
    if (props) return { screen, props };
  }
  return null;
}

/** Load the code of the first screen while the session is asked for. */
export function preload(): void {
  const screen = find(path.value)?.screen;
  screen
    ?.load()
    .then((module) => loaded.set(screen, module.default))
    // A failure is told when the screen is shown.
    .catch(() => {});
}

export function Outlet() {
  const found = find(path.value);
  const failed = useSignal<string | null>(null);
  const shown = useSignal(0);
  const screen = found?.screen ?? null;
  const isLive = state.value.kind === "live";
  const isThere = screen !== null && loaded.has(screen);
  useEffect(() => {
    failed.value = null;
    // Not asked here: the code may have come after the screen was drawn without it.
    if (!screen || isThere) return;
    screen
      .load()
      .then((module) => {
        loaded.set(screen, module.default);
        shown.value++;
      })
      .catch((error: unknown) => {
        failed.value = words(error);
      });
    // A daemon that was away is back: its screens are asked for again.
  }, [screen, isThere, failed, shown, isLive]);
  if (!found)
    return (
      <Empty>
        <h1>No such page</h1>
        <p>
          There is nothing at this address. <a href="/">Now</a> and <a href="/jobs">Jobs</a> are in the menu.
        </p>
      </Empty>
    );
  const Component = loaded.get(found.screen);
  void shown.value;
  if (failed.value && !isLive)
    return (
      <Problem words="the daemon does not answer; `grass start` starts it, and this screen then comes by itself" />
    );
  if (failed.value)
    return (
      <Problem
        words={`this screen cannot be loaded (${failed.value}); reload the page: the daemon may be a newer release`}
      />
    );
  return Component ? h(Component, { ...found.props, key: path.value }) : <p class="boot">Loading…</p>;
}
