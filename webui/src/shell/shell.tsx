/** The frame around every screen: menu, connection, theme, and the session. */

import { useEffect, useRef } from "preact/hooks";
import { addShortcuts, handleKey } from "../keys";
import * as live from "../live/live";
import { PLACES } from "../pages/routes";
import { followLinks, go, path } from "../router";
import { mayAdmin, maySubmit, recheck, session, signOut } from "../session";
import { type Theme, theme } from "../settings";
import { Questions } from "../ui/dialog";
import { useWish } from "../ui/hooks";
import { JobQuestions } from "../ui/job_actions";
import { attempt, Toasts } from "../ui/toast";
import { Connection } from "./connection";
import { Help, toggleHelp } from "./help";
import { Outlet } from "./outlet";
import { openPalette, Palette } from "./palette";

/** How much of the menu is left in view before the current page. */
const MENU_BEFORE = 80;

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export function Shell() {
  useWish({ totals: true });
  useEffect(() => {
    live.start();
    const unheard = live.onLoss(() => void recheck());
    document.addEventListener("keydown", handleKey);
    document.addEventListener("click", followLinks);
    const remove = addShortcuts([
      ...PLACES.map((place) => ({ keys: place.keys, words: place.words, act: () => go(place.address) })),
      { keys: "Ctrl-K", words: "Open the palette", act: openPalette },
      { keys: "?", words: "Show all shortcuts", act: toggleHelp },
      { keys: "t", words: "Change the theme", act: changeTheme },
    ]);
    return () => {
      live.stop();
      unheard();
      document.removeEventListener("keydown", handleKey);
      document.removeEventListener("click", followLinks);
      remove();
    };
  }, []);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="/">
          <img src="/icon.svg" alt="" width={22} height={22} />
          Grass
        </a>
        <Menu />
        <div class="top-end">
          <Connection />
          <button type="button" class="quiet" title="Search and do (Ctrl-K)" onClick={openPalette}>
            Search <kbd>Ctrl-K</kbd>
          </button>
          <button type="button" class="quiet" title={`Theme: ${theme.value}`} onClick={changeTheme}>
            <span aria-hidden="true">◐</span>
            <span class="hidden">Theme: {theme.value}</span>
          </button>
          <Account />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
      <Palette />
      <Help />
      <Questions />
      <JobQuestions />
      <Toasts />
    </>
  );
}

function changeTheme(): void {
  theme.value = NEXT_THEME[theme.value];
}

function Menu() {
  const at = path.value;
  const menu = useRef<HTMLElement>(null);
  // A phone shows a part of the menu: the part with the current page.
  useEffect(() => {
    const here = menu.current?.querySelector<HTMLElement>("[aria-current]");
    if (here && menu.current) menu.current.scrollLeft = here.offsetLeft - menu.current.offsetLeft - MENU_BEFORE;
  }, [at]);
  return (
    <nav ref={menu} aria-label="Pages">
      {PLACES.filter((place) => (!place.admin || mayAdmin.value) && (!place.submit || maySubmit.value)).map((place) => {
        const here = place.address === "/" ? at === "/" : at.startsWith(place.address);
        return (
          <a key={place.address} href={place.address} aria-current={here ? "page" : undefined}>
            {place.words}
            <Badge address={place.address} />
          </a>
        );
      })}
    </nav>
  );
}

/** The number of unfinished jobs beside Jobs. */
function Badge(props: { address: string }) {
  const totals = live.totals.value;
  if (props.address !== "/jobs" || !totals) return null;
  const count =
    (totals.running ?? 0) + (totals.placed ?? 0) + (totals.queued ?? 0) + (totals.waiting ?? 0) + (totals.held ?? 0);
  return count ? <span class="badge">{count > 9999 ? "9999+" : count}</span> : null;
}

function Account() {
  const state = session.value;
  if (state.kind !== "in") return null;
  const { scope } = state.session;
  return (
    <button
      type="button"
      class="quiet"
      title={`This session has the scope ${scope}`}
      onClick={() =>
        attempt(async () => {
          await signOut();
          return undefined;
        })
      }
    >
      {scope === "read" ? "Read-only · " : ""}Log out
    </button>
  );
}
