// @ts-check
/** One piece: its steps, its failure or output, and evidence whose digest the browser computes itself. */
import { address, get, getBytes, part } from "../api.js";
import { can } from "../auth.js";
import { bytes, counted, exact, form, id, time } from "../format.js";
import { forget } from "../parts/forget.js";
import { person } from "../parts/people.js";
import { badge, command, copy, empty, facts, json, quoted } from "../parts/show.js";
import { list, table } from "../parts/table.js";
import { html } from "../render.js";
import { verdictsIn } from "./verdicts.js";

export const title = "Piece";
const MOST_BYTES = 64_000_000; // that a page loads into its memory
const TEXT_BYTES = 20_000; // that are shown
const IDS = /** @type {const} */ (["task_id", "execution_id", "attempt_id"]);

/** @typedef {import("#ops").Piece} Piece */
/** @typedef {Piece["evidence_refs"][number]} Ref */
/** @typedef {{ state: "checking" | "same" | "changed" | "failed", found?: string, data?: ArrayBuffer, error?: unknown }} Look */

/** @param {import("../router.js").Place} place */
export async function open({ params, show, signal }) {
  const path = `pieces/${part(params.key)}`;
  let piece = /** @type {Piece} */ (await get(path, {}, signal));
  let verdicts = /** @type {unknown} */ (null);
  /** @type {Map<string, Look>} */
  const looks = new Map();
  const draw = () => show(view(piece, looks, check, verdicts, erase), `Piece ${piece.task_id ?? piece.key}`);
  /** @param {Ref} ref */
  async function check(ref) {
    looks.set(ref.digest, { state: "checking" });
    draw();
    looks.set(ref.digest, await compared(piece.key, ref, signal));
    if (!signal.aborted) draw();
  }
  const erase = () => forget({ path: `${path}/forget`, what: "what this piece was about", signal }, async () => {
    piece = await get(path, {}, signal);
    draw();
  });
  draw();
  list(verdictsIn(`${path}/verdicts`), (content) => ((verdicts = content), draw()), signal);
  for (const ref of piece.evidence_refs) if (ref.size_bytes <= MOST_BYTES && !signal.aborted) await check(ref);
}

/** Fetch evidence and compare its SHA-256 with the recorded one. @param {string} key @param {Ref} ref @param {AbortSignal} signal
 * @returns {Promise<Look>} */
async function compared(key, ref, signal) {
  try {
    const data = await getBytes(evidencePath(key, ref), signal);
    const hashed = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
    const found = `sha256:${[...hashed].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    return { state: found === ref.digest ? "same" : "changed", found, data };
  } catch (error) {
    return { state: "failed", error };
  }
}

/** @param {string} key @param {Ref} ref */
const evidencePath = (key, ref) => `pieces/${part(key)}/evidence/${part(ref.digest.replace("sha256:", ""))}`;

/** @param {Piece} piece @param {Map<string, Look>} looks @param {(ref: Ref) => void} check @param {unknown} verdicts @param {() => void} erase */
function view(piece, looks, check, verdicts, erase) {
  const { forgotten } = piece;
  return html`
    <h1>Piece ${badge(piece.is_lapsed ? "lapsed" : piece.state)}</h1>
    ${forgotten && html`<p class="said bad">What it was about was forgotten ${time(forgotten.at_ms)} by ${person(forgotten.by)}, record ${id(forgotten.record_id)}.
      ${forgotten.complete ? null : "Not all of it is erased yet: forget it once more."}</p>`}
    ${facts([
      ...IDS.map((name) => /** @type {[string, unknown]} */ ([name, html`${id(piece[name])} ${piece[name] && copy(piece[name], name)}`])),
      ["caller", piece.caller],
      ["executor", piece.executor],
      ["claimed", html`${time(piece.claimed_at_ms)}`],
      ["kept until", time(piece.expires_at_ms)],
      ["key", html`${id(piece.key)} ${copy(piece.key, "the key")}`],
    ])}
    ${piece.failure && html`<section aria-labelledby="failure"><h2 id="failure">Failure</h2>
      ${facts([["code", piece.failure.code], ["message", html`<span class="said">${piece.failure.message}</span>`]])}</section>`}
    ${piece.output && html`<section aria-labelledby="output"><h2 id="output">Output</h2>
      ${facts([["digest", html`${id(piece.output.digest)} ${copy(piece.output.digest, "the digest")}`], ["size", bytes(piece.output.size_bytes)]])}</section>`}
    <section aria-labelledby="steps"><h2 id="steps">Steps</h2>${steps(piece)}</section>
    <section aria-labelledby="evidence"><h2 id="evidence">Evidence</h2>
      ${piece.evidence_refs.length ? piece.evidence_refs.map((ref) => evidence(piece, ref, looks.get(ref.digest), check)) : empty("No evidence by reference", piece.evidence_inline_count ? `${counted(piece.evidence_inline_count, "piece")} of evidence ${form(piece.evidence_inline_count, "is", "are")} inline: the answer itself holds ${form(piece.evidence_inline_count, "it", "them")}.` : "The answer itself has none either.")}
    </section>
    <section aria-labelledby="verdicts"><h2 id="verdicts">Verdicts on its execution</h2>
      <p class="hint">A request to verify names an execution alone: these are all since the piece was claimed, by whoever asked.</p>${verdicts}</section>
    <section aria-labelledby="again"><h2 id="again">In a shell</h2>
      ${command(`curl -s -H "Authorization: Bearer $TOKEN" ${quoted(String(address(`pieces/${part(piece.key)}`)))}`, "This page's data")}</section>
    ${can("operator") && (piece.state !== "running" || piece.is_lapsed) ? html`<p class="verbs"><button type="button" class="grave" @click=${erase}>Forget what it was about…</button></p>` : null}
    <details><summary>All of it as JSON</summary>${json(piece, "the piece")}</details>`;
}

/** @param {Piece} piece */
function steps({ steps, has_more_steps, claimed_at_ms }) {
  if (!steps.length) return empty("No steps", "The executor recorded none: run.step(name, work) records one.");
  const rows = steps.map((step, at) => ({ ...step, at }));
  return html`${table({
    name: "Steps",
    heads: ["step", "recorded", "after the claim"],
    key: (step) => step.at,
    cells: (step) => [html`<code>${step.name}</code>`, time(step.at_ms), claimed_at_ms ? `${step.at_ms - claimed_at_ms} ms` : "–"],
  }, rows)}${has_more_steps && html`<p class="quiet">There are more steps, which the door does not list.</p>`}`;
}

/** @param {Piece} piece @param {Ref} ref @param {Look | undefined} look @param {(ref: Ref) => void} check */
function evidence(piece, ref, look, check) {
  const path = String(address(evidencePath(piece.key, ref)));
  const shell = `curl -s -H "Authorization: Bearer $TOKEN" ${quoted(path)} | sha256sum\n# ${ref.digest.replace("sha256:", "")} is what was recorded`;
  return html`<article class="evidence">
    <p>${verdict(ref, look)}</p>
    ${facts([
      ["digest", html`${id(ref.digest)} ${copy(ref.digest, "the digest")}`],
      ["found", look?.found && html`${id(look.found)}`],
      ["size", bytes(ref.size_bytes)],
      ["type", html`<code>${ref.mime}</code>`],
      ["producer", ref.producer],
      ["created", html`<time datetime=${exact(ref.created_at)}>${exact(ref.created_at)}</time>`],
    ])}
    <p class="verbs">
      <button type="button" @click=${() => check(ref)}>Compare again</button>
      <button type="button" ?hidden=${!look?.data} @click=${() => look?.data && save(look.data, ref)}>Save</button>
    </p>
    ${look?.data && isText(ref, look.data) && html`<details><summary>What it says</summary><pre tabindex="0">${new TextDecoder().decode(look.data)}</pre></details>`}
    ${command(shell, "The same check in a shell")}
  </article>`;
}

/** @param {Ref} ref @param {Look | undefined} look */
function verdict(ref, look) {
  if (!look) return html`<span class="quiet">${ref.size_bytes > MOST_BYTES ? "Too large to load by itself: compare it when you need it." : "Waits to be compared."}</span>`;
  if (look.state === "checking") return html`<span class="quiet">This browser computes the SHA-256…</span>`;
  if (look.state === "failed") return html`<strong class="said bad">Could not be fetched: ${look.error instanceof Error ? look.error.message : "unknown"}</strong>`;
  if (look.state === "same") return html`<strong class="said good">✓ Unchanged: this browser computed the recorded SHA-256 from the bytes.</strong>`;
  return html`<strong class="said bad" role="alert">✗ Changed: the bytes are not those that were recorded. Do not rely on them.</strong>`;
}

/** @param {Ref} ref @param {ArrayBuffer} data */
const isText = (ref, data) => data.byteLength <= TEXT_BYTES && /^(text\/|application\/(.*\+)?json)/.test(ref.mime);

/** @param {ArrayBuffer} data @param {Ref} ref */
function save(data, ref) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" })); // never shown in our origin
  anchor.download = ref.digest.replace(":", "-");
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}
