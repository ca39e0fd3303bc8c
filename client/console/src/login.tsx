// SPDX-License-Identifier: Apache-2.0
//
// The login of a console that asks each person for a token.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { logIn, type CallError } from "./api";

// `refused`: why the token that was shown last is no good. `onToken`: there is a new one.
export function LoginPage({ refused, onToken }: { refused?: CallError; onToken: () => void }): JSX.Element {
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Log in - duetime";
    field.current?.focus();
  }, []);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.trim() === "") return;
    logIn(token.trim());
    onToken();
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1><img src="icon.svg" width="28" height="28" alt="" />duetime</h1>
        {refused && <p class="problem" role="alert">The server refused the token: {refused.message}</p>}
        <label for="token">Token</label>
        <input id="token" ref={field} type="password" autocomplete="off" spellcheck={false} value={token}
          onInput={(event) => setToken(event.currentTarget.value)} />
        <p class="quiet">A token of the server, made with <code>duetime token create</code>, or a JWT. This tab keeps it until it is closed.</p>
        <button type="submit" class="primary" disabled={token.trim() === ""}>Log in</button>
      </form>
    </main>
  );
}
