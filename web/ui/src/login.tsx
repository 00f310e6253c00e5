import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, request, setLogin } from "./api/client";
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
