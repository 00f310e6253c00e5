// Loading for components: what a look-up gave, and how it failed.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  busy: boolean;
  /** Loads again. */
  reload: () => void;
}

/**
 * Calls load when the component begins and whenever one of deps changes, and cancels
 * it when the component goes away. every > 0 repeats it after that many ms, as long as
 * the page is visible. Old data stay until new ones arrive.
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], every = 0): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: Error | null; busy: boolean }>({ data: null, error: null, busy: true });
  const running = useRef<AbortController | null>(null);
  const now = useRef(load);
  now.current = load;
  const reload = useCallback(() => {
    running.current?.abort();
    const controller = (running.current = new AbortController());
    setState((s) => ({ ...s, busy: true }));
    now.current(controller.signal).then(
      (data) => !controller.signal.aborted && setState({ data, error: null, busy: false }),
      (error: Error) => !controller.signal.aborted && setState((s) => ({ ...s, error, busy: false })),
    );
  }, []);
  useEffect(() => {
    setState({ data: null, error: null, busy: true });
    reload();
    const timer = every > 0 ? setInterval(() => document.visibilityState === "visible" && reload(), every) : undefined;
    return () => {
      clearInterval(timer);
      running.current?.abort();
    };
  }, deps);
  return { ...state, reload };
}
