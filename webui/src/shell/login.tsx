/** What people see who have no session: how to get one. */

import { useSignal } from "@preact/signals";
import { words } from "../api/client";
import { begin } from "../session";
import { Problem } from "../ui/parts";

export function Login(props: { words: string | null }) {
  const code = useSignal("");
  const failed = useSignal<string | null>(props.words);
  const submit = async (event: Event) => {
    event.preventDefault();
    // A whole link may be pasted as well.
    const typed = code.value.trim().replace(/^.*#code=/, "");
    try {
      history.replaceState(null, "", `#code=${encodeURIComponent(typed)}`);
      await begin();
    } catch (error) {
      failed.value = words(error);
    }
  };
  return (
    <main class="login">
      <h1>Grass</h1>
      <p>
        Type <code>grass web</code> in a terminal of this machine: it opens this page and logs you in. The link works
        once.
      </p>
      <form onSubmit={submit}>
        <label>
          Or paste a link or code here
          <input
            name="code"
            autocomplete="off"
            spellcheck={false}
            value={code.value}
            onInput={(event) => {
              code.value = event.currentTarget.value;
            }}
          />
        </label>
        <button type="submit" class="primary" disabled={!code.value.trim()}>
          Log in
        </button>
      </form>
      <Problem words={failed.value} />
    </main>
  );
}
