/** Shows an error in words, and tells screen readers. */
export function ErrorBox({ error }: { error: Error }) {
  const text = error instanceof TypeError ? `The server does not answer: ${error.message}` : error.message;
  return (
    <div class="error" role="alert">
      {text}
    </div>
  );
}
