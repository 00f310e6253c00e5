// Asks before something is done that cannot be undone.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

interface Question {
  title: string;
  text: string;
  action: string;
  typed: string;
  answer: (yes: boolean) => void;
}

const asked = signal<Question | null>(null);

/**
 * Asks, and returns whether the user agrees. action is the text of the button. The user
 * must type the text typed, the name of what goes, unless it is "". The signal takes the
 * question back.
 */
export function confirm(title: string, text: string, action: string, typed = "", signal?: AbortSignal): Promise<boolean> {
  return new Promise((answer) => {
    const question = { title, text, action, typed, answer };
    asked.value = question;
    signal?.addEventListener("abort", () => {
      if (asked.value === question) asked.value = null;
      answer(false);
    });
  });
}

/** The dialog of confirm. The frame of the page has one. */
export function ConfirmDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const q = asked.value;
  const [text, setText] = useState("");
  useEffect(() => {
    setText("");
    if (q !== null) dialog.current?.showModal();
  }, [q]);
  if (q === null) return null;
  const end = (yes: boolean) => {
    asked.value = null;
    q.answer(yes);
  };
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onCancel={() => end(false)}>
      <h2 id="confirm-title">{q.title}</h2>
      <p class="long">{q.text}</p>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (text === q.typed) end(true);
        }}
      >
        {q.typed !== "" && (
          <label>
            Type <strong class="long">{q.typed}</strong> to go on:{" "}
            <input class="code" aria-label="Name of what goes" value={text} autocomplete="off" spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} />
          </label>
        )}
        <div class="bar">
          <button type="button" autofocus onClick={() => end(false)}>Cancel</button>
          <button type="submit" class="danger" disabled={text !== q.typed}>{q.action}</button>
        </div>
      </form>
    </dialog>
  );
}
