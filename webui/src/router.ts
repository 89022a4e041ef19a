/** Where the page is: the path and the query of the address, as signals. Every screen has an address of its own. */

import { computed, signal } from "@preact/signals";

export const path = signal(location.pathname);
export const search = signal(location.search);
export const hash = signal(location.hash);
export const query = computed(() => new URLSearchParams(search.value));

function read(): void {
  path.value = location.pathname;
  search.value = location.search;
  hash.value = location.hash;
}

window.addEventListener("popstate", read);
window.addEventListener("hashchange", read);

/** Go to an address of this page; `replace` leaves no entry in the history. */
export function go(address: string, replace = false): void {
  if (address === location.pathname + location.search + location.hash) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  read();
  if (!replace) window.scrollTo(0, 0);
}

/** Change parts of the query; null and the empty text remove one. */
export function setQuery(changes: Record<string, string | null>, replace = true): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  go(location.pathname + (text ? `?${text}` : "") + location.hash, replace);
}

/** Follow links to this page without loading it again; every other link is the browser's. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/v1/") || link.pathname === "/openapi.json") return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
}

/** Match a path against a pattern such as `/jobs/:id`; return its parts, or null. */
export function match(pattern: string, at: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const found = at.replace(/\/+$/, "").split("/");
  if (wanted.length !== found.length && !(at === "/" && pattern === "/")) return null;
  const parts: Record<string, string> = {};
  for (const [index, word] of wanted.entries()) {
    const here = found[index] ?? "";
    if (word.startsWith(":")) {
      try {
        parts[word.slice(1)] = decodeURIComponent(here);
      } catch {
        return null;
      }
    } else if (word !== here) return null;
  }
  return parts;
}
