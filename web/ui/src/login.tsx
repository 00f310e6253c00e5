import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, firstNeeded, loginNeeded, request, setLogin } from "./api/client";
import { identifier, literal, select } from "./api/influxql";
import { ErrorBox } from "./parts/error";

/** Asks for a user and a password, and tries them before it keeps them. */
export function LoginForm() {
  const [error, setError] = useState<Error | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const tried = { user: String(form.get("user")), password: String(form.get("password")) };
    try {
      await request("query", { form: { q: "SHOW DATABASES", read_only: "true" }, as: tried });
    } catch (e) {
      // A 403 says that the login is right, and that the user may do little.
      if (!(e instanceof ApiError) || e.status !== 403) return setError(e as Error);
    }
    setLogin(tried);
  };
  return (
    <dialog ref={dialog} aria-labelledby="login-title" onCancel={(e) => e.preventDefault()}>
      <form onSubmit={submit}>
        <h2 id="login-title">Log in</h2>
        <label>
          User <input name="user" autocomplete="username" required autofocus />
        </label>
        <label>
          Password <input name="password" type="password" autocomplete="current-password" />
        </label>
        {error !== null && <ErrorBox error={error} />}
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </dialog>
  );
}

/** Makes the administrator of a server that requires logins and has none, and logs in. */
export function FirstForm() {
  const [error, setError] = useState<Error | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const made = { user: String(form.get("user")), password: String(form.get("password")) };
    if (made.password !== String(form.get("again"))) return setError(new Error("The passwords differ."));
    try {
      await select(`CREATE USER ${identifier(made.user)} WITH PASSWORD ${literal(made.password)} WITH ALL PRIVILEGES`, { changes: true });
    } catch (e) {
      if (!loginNeeded.value) return setError(e as Error);
      firstNeeded.value = false; // somebody else was faster
      return;
    }
    setLogin(made);
  };
  return (
    <dialog ref={dialog} aria-labelledby="first-title" onCancel={(e) => e.preventDefault()}>
      <form onSubmit={submit}>
        <h2 id="first-title">Create the administrator</h2>
        <p>This server requires logins, and has no user yet. The administrator may do everything, and creates the other users under Admin.</p>
        <label>
          User <input name="user" autocomplete="username" required autofocus />
        </label>
        <label>
          Password <input name="password" type="password" autocomplete="new-password" required />
        </label>
        <label>
          Password again <input name="again" type="password" autocomplete="new-password" required />
        </label>
        {location.protocol === "http:" && !/^(localhost|127\.|\[::1\])/.test(location.hostname) && <p class="message">The password travels as plain text: this page was not loaded over HTTPS.</p>}
        {error !== null && <ErrorBox error={error} />}
        <button type="submit" class="primary">
          Create the administrator
        </button>
      </form>
    </dialog>
  );
}
