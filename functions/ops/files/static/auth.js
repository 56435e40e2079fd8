// @ts-check
/**
 * Who is signed in, and how one signs in.
 *
 * A way in is an object (`Way`). Ours are two: the cookie of the printed link, which the browser
 * sends by itself, and a token that was pasted, kept in memory alone. Another (OIDC) registers itself with `addWay`.
 * After a 401, `signIn()` asks the person and goes on where the request stopped: the address stays, so does the page.
 */
import { html } from "./render.js";
import { ask, isReadBy } from "./parts/dialog.js";
import { forget, isKept } from "./parts/kept.js";
import { toast } from "./parts/toast.js";

/** @typedef {import("#ops").Caller} Caller */
/**
 * @typedef {object} Way
 * @property {string} name
 * @property {() => Promise<Record<string, string>>} headers what each request carries
 * @property {() => Promise<boolean>} [resume] after a load: whether it can go on without asking
 * @property {() => Promise<boolean>} [isOffered] whether this door has it; else it always is
 * @property {() => Promise<void>} [begin] leaves the page to sign in; a button offers it
 * @property {() => Promise<void>} [end] signs out
 */

export const OPS = new URL("../../../ops/", import.meta.url);
const LONGEST_TOKEN = 10_240; // characters
const SENDABLE = /^[\x20-\x7e\xa0-\xff]*$/; // what a header holds
const WRONG = "This token is not one of the door's.";
const SESSION = new URL("../../session", import.meta.url);

/** @type {Way[]} */
const ways = [];
let pasted = "";
/** @type {Way | null} */
let current = null;
/** @type {Caller | null} */
let caller = null;
let signed = 0;
let refused = false;
/** @type {Promise<void> | null} */
let asking = null;
/** @type {Set<() => void>} */
const listeners = new Set();

/** Offer another way to sign in. @param {Way} way */
export const addWay = (way) => ways.push(way);

/** Be told when somebody else is signed in. @param {() => void} listener */
export const onCaller = (listener) => listeners.add(listener);

/** The name and roles of who is signed in; null before anybody is. */
export const who = () => caller;

/** Whether the signed-in person has one of these roles. A button that would be refused is not shown. @param {...string} roles */
export const can = (...roles) => roles.some((role) => caller?.roles.some((own) => own === role));

/** What each request carries. @returns {Promise<Record<string, string>>} */
export async function headers() {
  if (current) return current.headers();
  return pasted ? { Authorization: `Bearer ${pasted}` } : {};
}

/** Whether somebody is signed in who may do nothing here. */
export const isRefused = () => refused;

/** Once after the page has loaded: spends the link's token, resumes a way, and learns who is signed in. */
export async function start() {
  const once = new URLSearchParams(location.hash.slice(1)).get("once");
  if (once) {
    history.replaceState(null, "", location.pathname + location.search); // the token does not stay in the history
    await spend(once);
  }
  for (const way of ways) if (await way.resume?.()) current = way;
  const why = await learn();
  if (why && current) return (current = null), signIn(`The door does not take your sign-in: ${why}.`);
  if (!why && isKept(caller?.name ?? "")) toast("What you had typed is kept. Open the same question again.");
}

/** How often somebody has signed in; a request that was sent before the last time is only sent again. */
export const epoch = () => signed;

/** Ask the person to sign in; all requests that wait for it share one question. @param {string} [problem] that is told in it
 * @returns {Promise<void>} */
export function signIn(problem = "") {
  asking ??= question(problem).finally(() => (asking = null));
  return asking;
}

/** Sign out everywhere that this page knows; if the door cannot be asked, nobody is told that it is done. What is private leaves the page
 * before the issuer is told, which may fail. */
export async function signOut() {
  forget();
  const way = current;
  if (!way && !(await fetch(SESSION, { method: "DELETE" }).catch(() => null))) return toast("The door cannot be reached, so you are still signed in. Try again.", "failed");
  [current, pasted] = [null, ""];
  set(null);
  document.dispatchEvent(new CustomEvent("pw-signed-out"));
  const untold = await way?.end?.().then(() => "", () => "You are signed out here. The issuer could not be told and may still know this browser: if others use it, close it.");
  if (untold && asking) toast(untold, "failed"); // a question stands already, since a look met 401 first
  await signIn(untold);
}

/** @param {string} once */
async function spend(once) {
  const sent = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ once }) };
  await fetch(SESSION, sent).catch(() => null); // refused: the question below says how to go on
}

/** @returns {Promise<string>} why nobody is signed in; empty if somebody is */
async function learn() {
  const answer = await fetch(new URL("whoami", OPS), { headers: await headers(), cache: "no-store" }).catch(unreached);
  if (answer.status === 403) return await refuse(answer);
  if (answer.status === 401) return set(null), (await answer.json().catch(() => null))?.error || "no reason was given";
  if (!answer.ok) throw new Error(`The door answered ${answer.status}. Try again in a moment.`);
  const found = await answer.json().catch(unreached);
  signed += 1;
  set(found);
  return "";
}

/** @returns {never} */
function unreached() {
  throw new Error("The door cannot be reached, so it is not known who is signed in. Check the connection, then try again.");
}

/** Somebody is signed in who may do nothing: the door says why. @param {Response} answer @returns {Promise<never>} */
async function refuse(answer) {
  const said = (await answer.json().catch(() => null))?.error;
  set(null, true);
  throw new Error(typeof said === "string" ? said : "You are signed in, but may do nothing here.");
}

/** @param {Caller | null} found @param {boolean} [isRefused] */
function set(found, isRefused = false) {
  [caller, refused] = [found, isRefused];
  if (found) isReadBy(found.name), isKept(found.name); // what another has typed is erased
  for (const listener of listeners) listener();
}

/** Leave the page to sign in; what stops that is told. @param {Way} way */
function leave(way) {
  document.dispatchEvent(new CustomEvent("pw-leaving"));
  return way.begin?.().catch((error) => toast(error.message, "failed"));
}

/** @param {string} earlier why the last try did not do @returns {Promise<void>} */
async function question(earlier) {
  const others = [];
  for (const way of ways) if (way.begin && (await way.isOffered?.().catch(() => true) ?? true)) others.push(way);
  const answer = await ask({
    title: "Sign in",
    intro: html`<p>${others.length ? "Sign in with your account" : html`Open the link that <code>make run</code> printed`}, or paste a token of this door.
      A pasted token is kept in this page alone and is gone when the page is closed.</p>
      ${others.map((way) => html`<p><button type="button" @click=${() => leave(way)}>${way.name}</button></p>`)}`,
    fields: [{ name: "token", label: "Token", type: "password", required: true, max: LONGEST_TOKEN }],
    verb: "Sign in",
    problem: earlier,
    isForced: true,
  });
  const given = answer?.token.trim() ?? "";
  if (!SENDABLE.test(given)) return question(WRONG);
  [current, pasted] = [null, given];
  const problem = await learn().then((why) => why && WRONG, (error) => error.message);
  if (problem) return question(problem);
}
