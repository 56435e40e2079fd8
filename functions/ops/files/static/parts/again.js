// @ts-check
/** Looks again and again while the page is visible, and at once when it becomes visible again. */

/** Call `look` every so many milliseconds, one call at a time, until `signal` aborts.
 * @param {() => Promise<unknown>} look which does not throw @param {number} ms @param {AbortSignal} signal */
export function again(look, ms, signal) {
  let isBusy = false;
  const turn = async () => {
    if (isBusy || document.hidden || signal.aborted) return;
    isBusy = true;
    await look();
    isBusy = false;
  };
  const timer = setInterval(turn, ms);
  document.addEventListener("visibilitychange", turn, { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
}
