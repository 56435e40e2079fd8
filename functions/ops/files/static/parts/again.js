// @ts-check
/** Looks again and again while the page is visible, one look at a time, and at once when it becomes visible again. */

/**
 * One look at a time: what is returned looks now, and where a look is under way once more after that one, so that what its caller has just done
 * is seen, and an older answer never takes the place of a newer one. None begins after `signal` has aborted.
 * @param {() => Promise<unknown>} look @param {AbortSignal} signal @returns {() => Promise<unknown>}
 */
export function inTurn(look, signal) {
  let current = /** @type {Promise<unknown> | null} */ (null);
  let next = /** @type {Promise<unknown> | null} */ (null);
  const begin = () => (current = look().finally(() => (current = null)));
  const follow = () => ((next = null), signal.aborted ? null : begin());
  return () => next ?? (current ? (next = current.then(follow, follow)) : begin());
}

/**
 * Call `look` in its turn every so many milliseconds until `signal` aborts. What it returns looks now.
 * Where a look that nobody has asked for fails, nothing is told: `look` does that itself. One that was asked for fails for who asked.
 * @param {() => Promise<unknown>} look @param {number} ms @param {AbortSignal} signal
 * @param {() => boolean} [isDue] whether a look that nobody has asked for is worth it
 * @returns {() => Promise<unknown>}
 */
export function again(look, ms, signal, isDue = () => true) {
  let isLooking = false;
  const now = inTurn(() => ((isLooking = true), look().finally(() => (isLooking = false))), signal);
  const isIdle = () => document.hidden || signal.aborted || !isDue();
  const timer = setInterval(() => isLooking || isIdle() || now().catch(() => null), ms);
  document.addEventListener("visibilitychange", () => isIdle() || now().catch(() => null), { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
  return now;
}
