import { expect, test, vi } from "vitest";
import { paintTurn, turns } from "./queue";

test("so many run at a time, in their order, and one that was taken back does not run", async () => {
  const turn = turns(2);
  const ends: (() => void)[] = [];
  const began: number[] = [];
  const back = new AbortController();
  const go = (i: number, signal = new AbortController().signal) =>
    turn(signal, () => {
      began.push(i);
      return new Promise<void>((end) => ends.push(end));
    });
  const all = [go(1), go(2), go(3), go(4, back.signal), go(5)];
  const failed = expect(all[3]).rejects.toThrow();
  await Promise.resolve();
  expect(began).toEqual([1, 2]);
  back.abort();
  for (let i = 0; i < 4; i++) {
    ends.shift()!();
    for (let k = 0; k < 10; k++) await Promise.resolve();
    expect(began.length - i).toBeLessThanOrEqual(3);
  }
  await failed;
  await Promise.all([all[0], all[1], all[2], all[4]]);
  expect(began).toEqual([1, 2, 3, 5]);
});

test("shows one answer a frame, in their order, and goes on where there are no frames", async () => {
  vi.useFakeTimers();
  const frames: (() => void)[] = [];
  vi.stubGlobal("requestAnimationFrame", (f: () => void) => frames.push(f));
  const shown: number[] = [];
  for (const i of [1, 2, 3]) void paintTurn().then(() => shown.push(i));
  await vi.advanceTimersByTimeAsync(1);
  expect([shown, frames.length]).toEqual([[], 1]);
  frames.shift()!();
  await vi.advanceTimersByTimeAsync(1);
  expect([shown, frames.length]).toEqual([[1], 1]);
  await vi.advanceTimersByTimeAsync(250); // the tab is out of sight
  expect(shown).toEqual([1, 2, 3]);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
