// @ts-check
/** Requests to the operator's door: JSON, its errors, a sign-in where one is needed, patience where it is asked for. */
import { OPS, epoch, headers, signIn, who } from "./auth.js";

const TRIES = 3; // of a read that is told to come back
const LONGEST_WAIT_S = 5;
const READ_MS = 40_000; // the door ends a request after 29 s: what takes longer is lost
const BROKEN = [500, 502, 504]; // after which nobody knows how far the door came
const PERHAPS = "It may have been done all the same: look before you try again.";

/** A refusal of the door, or none at all (`status` 0). */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {any} [details] what the door tells beside it */
  constructor(status, code, message, details = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** @typedef {Record<string, string | number | null | undefined | string[]>} Query */

/** Read JSON: get("pieces", { state: "failed" }). @param {string} path @param {Query} [query] @param {AbortSignal} [signal] */
export async function get(path, query = {}, signal) {
  return read(path, query, signal, (answer) => answer.json());
}

/** Read JSON whose numbers a person decides on: what JavaScript would round stays as it is written, for JSON.stringify.
 * @param {string} path @param {Query} [query] @param {AbortSignal} [signal] */
export async function getExact(path, query = {}, signal) {
  return read(path, query, signal, async (answer) => exactly(await answer.text()));
}

/** JSON as `getExact` reads it. @param {string} text */
export const exactly = (text) => JSON.parse(text, exactNumber);

/** @param {string} _ @param {any} value @param {{ source?: string }} [context] which browsers of today give a reviver */
function exactNumber(_, value, context) {
  const { rawJSON } = /** @type {any} */ (JSON);
  const isOther = typeof value === "number" && context?.source !== undefined && String(value) !== context.source;
  return isOther && rawJSON ? rawJSON(context.source) : value;
}

/** Read bytes as they are. @param {string} path @param {AbortSignal} [signal] */
export async function getBytes(path, signal) {
  return read(path, {}, signal, (answer) => answer.arrayBuffer());
}

/** Do something. It is never repeated by itself: an answer that is lost leaves it unknown whether it was done.
 * @param {string} path @param {object} body @param {AbortSignal} [signal] */
export async function post(path, body, signal) {
  const sent = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await authorized(address(path, {}), sent, signal);
  if (!answer.ok) throw await refusal(answer, BROKEN.includes(answer.status) ? PERHAPS : "");
  return answer.json().catch(() => {
    throw new ApiError(0, "unreachable", `The door's answer broke off. ${PERHAPS}`);
  });
}

/** Names and values of a query, without those that are empty. @param {Query} query */
export const pairsOf = (query) => Object.entries(query).flatMap(([name, value]) => [value].flat().filter((each) => each != null && each !== "").map((each) => [name, String(each)]));

/** The whole address of a path under /ops. @param {string} path @param {Query} [query] */
export function address(path, query = {}) {
  const url = new URL(path, OPS);
  for (const [name, value] of pairsOf(query)) url.searchParams.append(name, value);
  return url;
}

/** One piece of a path, from a text that anybody wrote. @param {string} text */
export const part = (text) => encodeURIComponent(text);

/** A request with a credential; after a 401 the person signs in and it is sent again, but never in another person's name.
 * @param {URL} url @param {RequestInit} init @param {AbortSignal} [signal]
 * @param {number} [ms] after which an answer counts as lost, its body too @returns {Promise<Response>} */
export async function authorized(url, init = {}, signal, ms) {
  for (;;) {
    const [at, sender] = [epoch(), who()?.name];
    const ends = [...(signal ? [signal] : []), ...(ms ? [AbortSignal.timeout(ms)] : [])];
    const answer = await reach(url, { ...init, headers: { ...init.headers, ...(await headers()) }, signal: AbortSignal.any(ends), cache: "no-store" }, signal);
    if (answer.status !== 401) return answer;
    if (epoch() === at) await signIn();
    if (init.method === "POST" && sender !== undefined && who()?.name !== sender) throw new ApiError(401, "unauthorized", "Somebody else is signed in now, so nothing was done. Try again.");
  }
}

/** @param {URL} url @param {RequestInit} init @param {AbortSignal} [signal] */
async function reach(url, init, signal) {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    const then = init.method === "POST" ? `, or its answer was lost. ${PERHAPS}` : ". Check the connection, then try again.";
    throw new ApiError(0, "unreachable", `The door cannot be reached${then}`);
  }
}

/** @template T @param {string} path @param {Query} query @param {AbortSignal | undefined} signal @param {(answer: Response) => Promise<T>} take
 * @returns {Promise<T>} */
async function read(path, query, signal, take) {
  for (let tries = 1; ; tries += 1) {
    const answer = await authorized(address(path, query), {}, signal, READ_MS);
    if (answer.ok) return take(answer).catch((error) => {
      throw signal?.aborted ? error : new ApiError(0, "unreachable", "The door's answer broke off. Try again.");
    });
    if (tries === TRIES || ![429, 503].includes(answer.status)) throw await refusal(answer);
    const seconds = Number(answer.headers.get("Retry-After") ?? 1);
    await new Promise((resolve) => setTimeout(resolve, 1_000 * Math.min(seconds || 1, LONGEST_WAIT_S)));
    signal?.throwIfAborted();
  }
}

/** @param {Response} answer @param {string} [more] to be said beside it */
async function refusal(answer, more) {
  const body = await answer.json().catch(() => ({}));
  const code = typeof body?.code === "string" ? body.code : "unknown";
  const said = typeof body?.error === "string" ? body.error : `the door answered ${answer.status}`;
  return new ApiError(answer.status, code, more ? `${said.replace(/\.$/, "")}. ${more}` : said, body?.details);
}
