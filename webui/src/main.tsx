/** The web page of Grass: enters with a session or a login link, then shows the shell. */

import { render } from "preact";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import { begin, session } from "./session";
import "./settings";
import { Login } from "./shell/login";
import { preload } from "./shell/outlet";
import { Shell } from "./shell/shell";
import { Problem } from "./ui/parts";

function App() {
  const state = session.value;
  switch (state.kind) {
    case "asking":
      return <p class="boot">Grass is loading…</p>;
    case "away":
      return (
        <main class="login">
          <h1>Grass</h1>
          <Problem words={state.words} />
          <button type="button" onClick={() => void begin()}>
            Try again
          </button>
        </main>
      );
    case "out":
      return <Login words={state.words} key={state.words} />;
    case "in":
      return <Shell key={state.session.session} />;
  }
}

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(<App />, root);
  preload();
  void begin();
  // A login link that is pasted into the address of an open page loads nothing: only the part after # changes.
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#code=")) void begin();
  });
}
