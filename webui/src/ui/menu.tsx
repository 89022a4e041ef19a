/** A button that opens a small panel under it; a click elsewhere or Escape closes it. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "./menu.css";

export function Menu(props: { label: ComponentChildren; title?: string; children: ComponentChildren; end?: boolean }) {
  const open = useSignal(false);
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open.value) return;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent && event.key !== "Escape") return;
      if (event instanceof PointerEvent && ref.current?.contains(event.target as Node)) return;
      open.value = false;
      if (event instanceof KeyboardEvent) {
        event.stopPropagation();
        ref.current?.querySelector("button")?.focus();
      }
    };
    document.addEventListener("pointerdown", close, true);
    document.addEventListener("keydown", close, true);
    return () => {
      document.removeEventListener("pointerdown", close, true);
      document.removeEventListener("keydown", close, true);
    };
  }, [open, open.value]);
  return (
    <div class="menu" ref={ref}>
      <button
        type="button"
        title={props.title}
        aria-expanded={open.value}
        onClick={() => {
          open.value = !open.value;
        }}
      >
        {props.label} <span aria-hidden="true">▾</span>
      </button>
      {open.value ? (
        // biome-ignore lint/a11y/noStaticElementInteractions: the entries have the keys
        // biome-ignore lint/a11y/useKeyWithClickEvents: the same
        <div
          class={props.end ? "menu-panel end" : "menu-panel"}
          onClick={(event) => {
            // An entry that was chosen ends the choice.
            if (event.target instanceof Element && event.target.closest(".menu-list a, .menu-list button"))
              open.value = false;
          }}
        >
          {props.children}
        </div>
      ) : null}
    </div>
  );
}

/** An entry of a list in a menu. */
export function MenuItem(props: { words: string; act: () => void }) {
  return (
    <li>
      <button type="button" class="quiet" onClick={props.act}>
        {props.words}
      </button>
    </li>
  );
}
