// @ts-check
/** Looks again and again while the page is visible, one look at a time, and at once when it becomes visible again. */

/**
 * Call `look` every so many milliseconds until `signal` aborts. What it returns looks now; where a look is under way it looks
 * once more after that one, so that what its caller has just done is seen, and an older answer never takes the place of a newer one.
 * Where a look that nobody has asked for fails, nothing is told: `look` does that itself. One that was asked for fails for who asked.
 * @param {() => Promise<unknown>} look @param {number} ms @param {AbortSignal} signal
 * @param {() => boolean} [isDue] whether a look that nobody has asked for is worth it
 * @returns {() => Promise<unknown>}
 */
export function again(look, ms, signal, isDue = () => true) {
  let current = /** @type {Promise<unknown> | null} */ (null);
  let next = /** @type {Promise<unknown> | null} */ (null);
  const begin = () => (current = look().finally(() => (current = null)));
  const follow = () => ((next = null), signal.aborted ? null : begin());
  const now = () => next ?? (current ? (next = current.then(follow, follow)) : begin());
  const isIdle = () => document.hidden || signal.aborted || !isDue();
  const timer = setInterval(() => current || isIdle() || now().catch(() => null), ms);
  document.addEventListener("visibilitychange", () => isIdle() || now().catch(() => null), { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
  return now;
}
