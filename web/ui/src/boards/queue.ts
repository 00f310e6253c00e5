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

/** The frame in which the last answer so far is shown. */
let shown = Promise.resolve();

/**
 * Returns when it is this answer's turn to be shown. Each has a frame of its own: the plots of
 * several answers at once would stop the page for as long as all of them take.
 */
export function paintTurn(): Promise<void> {
  return (shown = shown.then(nextFrame));
}

/** Waits for the next frame; a tab that is out of sight has none. */
function nextFrame(): Promise<void> {
  return new Promise((done) => {
    const late = setTimeout(done, 100);
    requestAnimationFrame(() => {
      clearTimeout(late);
      setTimeout(done); // behind the work of this frame
    });
  });
}
