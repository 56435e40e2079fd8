// @ts-check
/** Questions to the person: a form in a <dialog>, which keeps the focus and closes with Escape. */
import { html, render } from "../render.js";
import { forget, keep, typed } from "./kept.js";

const MOST = 1_000; // characters of a field that does not say it

/** `max` characters; what is longer is told, not cut: a browser would cut what one pastes, and not say so.
 * @typedef {{ name: string, label: string, type?: string, required?: boolean, value?: string, max?: number, hint?: string, choices?: string[] }} Field
 * @typedef {{ title: string, intro?: unknown, fields?: Field[], verb: string, problem?: string, isForced?: boolean,
 *   isGrave?: boolean, no?: string, about?: string, act?: (values: Record<string, string>) => Promise<unknown> }} Question
 */

let reader = ""; // the name of who is signed in

/** Who is signed in from now on: what they have typed is theirs. @param {string} name */
export const isReadBy = (name) => (reader = name);

/** Ask; null if the person says no, or goes to another view. With `act`, the dialog stays open until it has worked, and shows
 * why it has not; while it works nobody can close it, so that what came of it is seen. Who must leave the page to sign in again finds the
 * reason in the same question: that of the same view and title, and `about` the same thing where a view has many.
 * @param {Question} question @returns {Promise<Record<string, string> | null>} */
export function ask(question) {
  const dialog = document.createElement("dialog");
  const back = document.activeElement;
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = /** @type {Record<string, string> | null} */ (null);
    let problem = question.problem ?? "";
    let [isBusy, hasLeft] = [false, false];
    const named = `${location.pathname} ${question.title} ${question.about ?? ""}`;
    const keepIt = () => question.isForced || keep(reader, named, reasonIn(dialog)?.value ?? "");
    const leave = () => question.isForced || ((hasLeft = true), end());
    const draw = () => render(form(question, problem, isBusy, send, end), dialog);
    const send = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      if (isBusy) return;
      const values = Object.fromEntries(
        [...new FormData(/** @type {HTMLFormElement} */ (event.target))].map(([name, value]) => [name, String(value)]),
      );
      try {
        (isBusy = true), (problem = tooLong(question, values)), draw();
        if (problem) return;
        await question.act?.(values);
        answer = values;
        end();
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
      } finally {
        (isBusy = false), draw();
      }
    };
    const end = () => {
      if (!dialog.isConnected) return;
      document.removeEventListener("pw-moved", leave);
      document.removeEventListener("pw-leaving", keepIt);
      forget(named);
      close(dialog);
      if (back instanceof HTMLElement && back.isConnected) back.focus();
      resolve(answer);
    };
    dialog.addEventListener("cancel", (event) => (event.preventDefault(), question.isForced || isBusy || end()));
    document.addEventListener("pw-moved", leave);
    document.addEventListener("pw-leaving", keepIt);
    dialog.addEventListener("close", () => {
      if ((question.isForced && !answer) || (isBusy && !hasLeft)) return dialog.showModal(); // a browser closes it at a second Escape
      end();
    });
    draw();
    const [reason, before] = [reasonIn(dialog), typed(reader, named)];
    if (reason && before) reason.value = before;
    dialog.showModal();
  });
}

/** Close a dialog, and take it from the page at once: a browser tells of it some frames later, and until then keys would go to what nobody sees.
 * @param {HTMLDialogElement} dialog */
export function close(dialog) {
  dialog.close();
  dialog.remove();
}

/** Ask for the reason of a verb, then do it. @param {Omit<Question, "fields">} question @param {number} [max] characters */
export function askReason(question, max = 500) {
  const reason = { name: "reason", label: "Reason", type: "area", required: true, max, hint: "It is recorded with your name." };
  return ask({ ...question, fields: [reason] });
}

/** The field of a dialog that holds a reason. @param {HTMLElement} dialog */
const reasonIn = (dialog) => /** @type {HTMLTextAreaElement | null} */ (dialog.querySelector("textarea[name=reason]"));

/** @param {Question} question @param {string} problem @param {boolean} isBusy @param {(event: any) => void} send @param {() => void} no */
function form({ title, intro, fields = [], verb, isForced, isGrave, no: keep = "Cancel" }, problem, isBusy, send, no) {
  return html`<form method="dialog" @submit=${send} aria-labelledby="dialog-title">
    <h2 id="dialog-title">${title}</h2>
    ${intro}
    ${fields.map((wanted, at) => field(wanted, at === 0))}
    <p class="failed" role="alert" ?hidden=${!problem}>${problem}</p>
    <p class="verbs">
      <button class=${isGrave ? "grave" : "main"} ?disabled=${isBusy}>${isBusy ? "Working…" : verb}</button>
      <button type="button" ?hidden=${isForced} ?disabled=${isBusy} @click=${no}>${keep}</button>
    </p>
  </form>`;
}

/** What is too long, in words; empty if nothing. @param {Question} question @param {Record<string, string>} values */
function tooLong({ fields = [] }, values) {
  const said = fields.map(({ name, label, max = MOST }) => ({ label, max, length: (values[name] ?? "").trim().length })).filter(({ max, length }) => length > max);
  return said.map(({ label, max, length }) => `${label} has ${length} characters; at most ${max} are possible. Nothing was sent.`).join(" ");
}

/** @param {Field} wanted @param {boolean} isFirst */
function field({ name, label, type = "text", required, value = "", hint, choices }, isFirst) {
  const [input, help, list] = [`field-${name}`, `hint-${name}`, `choices-${name}`];
  return html`<p class="field">
    <label for=${input}>${label}</label>
    ${
      type === "area"
        ? html`<textarea id=${input} name=${name} rows="3" ?required=${required} ?autofocus=${isFirst} aria-describedby=${help}></textarea>`
        : html`<input id=${input} name=${name} type=${type} value=${value} ?required=${required} ?autofocus=${isFirst}
            autocomplete="off" spellcheck="false" aria-describedby=${help} list=${choices?.length ? list : null}>
          ${choices?.length ? html`<datalist id=${list}>${choices.map((choice) => html`<option value=${choice}></option>`)}</datalist>` : null}`
    }
    <span class="hint" id=${help}>${hint}</span>
  </p>`;
}
