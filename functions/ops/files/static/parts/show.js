// @ts-check
/** Small things of every page: badges, facts, copy buttons, empty states, failures, JSON. */
import { ApiError } from "../api.js";
import { html } from "../render.js";
import { toast } from "./toast.js";

const TONES = /** @type {Record<string, string>} */ ({
  ...Object.fromEntries(["done", "completed", "settled", "delivered", "released", "ok", "partial_final", "settled_unconfirmed", "spent", "passed", "granted", "allow", "connected"].map((state) => [state, "good"])),
  ...Object.fromEntries(["failed", "cancelled", "rejected", "denied", "given_up", "refused", "failed_permanent", "exhausted", "timed_out", "unresolved", "deny"].map((state) => [state, "bad"])),
  ...Object.fromEntries(["running", "in_progress", "processing", "executing", "settling", "result_ready"].map((state) => [state, "busy"])),
  ...Object.fromEntries(["waiting", "blocked", "pending", "uncertain", "lapsed", "in doubt", "unknown", "unpaid", "failed_transient", "stopped", "inconclusive", "require_approval", "paused"].map((state) => [state, "wait"])),
});

/** The tone of a state: good, bad, wait, busy or plain. @param {unknown} state */
export const toneOf = (state) => TONES[String(state).toLowerCase()] ?? "plain";

/** A state as a badge: its word, and a colour and a mark that do not carry the meaning alone. @param {unknown} state */
export const badge = (state) => html`<span class="badge" data-tone=${toneOf(state)}>${state}</span>`;

/** Names and values. @param {[string, unknown][]} rows */
export const facts = (rows) =>
  html`<dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** A button that copies a text. @param {string} text @param {string} what as in “Copy the key” */
export const copy = (text, what) =>
  html`<button type="button" class="copy" aria-label=${`Copy ${what}`} title=${`Copy ${what}`} @click=${() => write(text, what)}>copy</button>`;

/** @param {string} text @param {string} what */
async function write(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${what}`);
  } catch {
    toast(`The browser does not let this page copy ${what}`, "failed");
  }
}

/** What stands where nothing is: why, and what to do next. @param {string} title @param {unknown} next */
export const empty = (title, next) => html`<div class="empty"><p><strong>${title}</strong></p><p>${next}</p></div>`;

/** A failure, in words that say what to do. @param {unknown} error @param {(() => void) | null} [again] */
export function failure(error, again) {
  const status = error instanceof ApiError ? error.status : -1;
  const hint = /** @type {Record<number, string>} */ ({
    403: "Your roles do not cover this. Ask an operator, or sign in as somebody else.",
    404: "It may have expired, or the address is wrong.",
    429: "Too many requests just now. Wait a moment.",
    503: "Something that the door needs is out of reach. Wait a moment.",
  })[status];
  const text = error instanceof Error ? error.message : String(error);
  return html`<div class="failed" role="alert"><p><strong>${text}</strong></p><p>${hint}</p>
    ${again && html`<p><button type="button" @click=${again}>Try again</button></p>`}</div>`;
}

/** JSON, indented, with a copy button. @param {unknown} value @param {string} what */
export function json(value, what) {
  const text = JSON.stringify(value, null, 2) ?? "undefined";
  return html`<figure class="code"><figcaption>${what} ${copy(text, what)}</figcaption><pre tabindex="0">${text}</pre></figure>`;
}

/** A command to repeat something in a shell. @param {string} text @param {string} what */
export const command = (text, what) =>
  html`<figure class="code"><figcaption>${what} ${copy(text, "the command")}</figcaption><pre tabindex="0">${text}</pre></figure>`;

/** A text as one word of a POSIX shell, whatever it holds. @param {string} text */
export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
