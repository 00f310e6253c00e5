// Turns: a few panels ask at a time, the others wait.

/** Returns a function that runs tasks, at most so many at a time, in the order of their calls. */
export function turns(most: number): <T>(signal: AbortSignal, task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = most;
  return async (signal, task) => {
    if (free > 0) free--;
    else await new Promise<void>((go) => waiting.push(go)); // the one that ends hands over its turn
    try {
      signal.throwIfAborted(); // it was taken back while it waited
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    }
  };
}

/** The turns of the panels of a board. */
export const panelTurns = turns(4);
