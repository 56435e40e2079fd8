// @ts-check
/**
 * The reason that a person has typed when they must leave the page to sign in again: kept in this tab for them alone.
 *
 * It is written when the page is left, and gone once it was used, a quarter of an hour later, at a sign-out, and as soon as
 * somebody else signs in. Nothing else is kept: no token, and nothing that is typed to confirm.
 */
const KEY = "piecework.typed";
const MS = 15 * 60_000;

/** Keep the reason of a question for the one who has typed it. @param {string} name @param {string} question @param {string} text */
export function keep(name, question, text) {
  if (name && text) stored((storage) => storage.setItem(KEY, JSON.stringify({ name, question, text, until: Date.now() + MS })));
}

/** What this person has typed into this question; empty if nothing. @param {string} name @param {string} question */
export function typed(name, question) {
  const found = read(name);
  return found?.question === question ? found.text : "";
}

/** Whether there is something for this person; what is another's is erased. @param {string} name */
export function isKept(name) {
  const found = read(name);
  if (!found) forget();
  return found !== null;
}

/** Erase what is kept; with a question, only if it is that one's. @param {string} [question] */
export function forget(question) {
  if (question === undefined || whole()?.question === question) stored((storage) => storage.removeItem(KEY));
}

const whole = () => JSON.parse(stored((storage) => storage.getItem(KEY)) ?? "null");

/** @param {string} name @returns {{ question: string, text: string } | null} */
function read(name) {
  const found = whole();
  return found && name && found.name === name && Date.now() < found.until ? found : null;
}

/** @template T @param {(storage: Storage) => T} act @returns {T | null} */
function stored(act) {
  try {
    return act(sessionStorage);
  } catch {
    return null; // storage is switched off: nothing is kept
  }
}
