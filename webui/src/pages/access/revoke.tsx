/** Ends a token: its connections at once, and its jobs as asked. */

import { change } from "../../api/client";
import { confirm } from "../../ui/dialog";
import { plural, printable } from "../../ui/format";
import { attempt } from "../../ui/toast";
import type { Token } from "./access";

export async function revoke(token: Token): Promise<boolean> {
  const name = printable(token.name || token.id);
  const jobs = token.jobs ? "Its jobs that have not started will be held; running ones go on. " : "";
  const text = token.is_code ? "Nobody can use this code any more." : `${jobs}Its connections end at once.`;
  if (!(await confirm(`Revoke ${token.is_code ? "code" : "token"} ${name}?`, text, "Revoke", { danger: true })))
    return false;
  return attempt(async () => {
    const done = await change("/v1/tokens/revoke", { id: token.id });
    return `${name} is revoked; ${plural(done.held, "job")} held, ${done.running} running`;
  });
}
