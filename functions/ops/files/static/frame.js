// @ts-check
/** What stands around every page: menu, search, theme, who is signed in; and the keys. */
import * as auth from "./auth.js";
import { close } from "./parts/dialog.js";
import { each, html, render } from "./render.js";
import { go, link } from "./router.js";
import { ROUTES } from "./routes.js";

const WAIT_MS = 1_500; // between `g` and the second key
let current = "/now";
let isAwaited = 0;

/** Draw the frame, now and whenever it changes. */
export function drawFrame() {
  const head = /** @type {Element} */ (document.getElementById("head"));
  const draw = () => render(frame(), head);
  auth.onCaller(draw);
  document.addEventListener("pw-moved", (event) => ((current = /** @type {CustomEvent} */ (event).detail), draw()));
  document.addEventListener("keydown", pressed);
  draw();
}

function frame() {
  const menu = ROUTES.filter((route) => route.key);
  const caller = auth.who();
  return html`
    <a class="home" href=${link("/now")}><span class="mark" aria-hidden="true"></span>Piecework</a>
    <nav aria-label="Pages"><ul>
      ${each(menu, (route) => route.path, ({ path, name, key }) => html`<li>
        <a href=${link(path)} aria-current=${isWithin(path) ? "page" : null} title=${`g then ${key}`}>${name}</a></li>`)}
    </ul></nav>
    <form role="search" @submit=${search}>
      <label class="unseen" for="search">Search by any id</label>
      <input id="search" name="q" type="search" placeholder="Search by any id  ( / )" autocomplete="off" spellcheck="false">
    </form>
    <button type="button" @click=${changeTheme} aria-label=${`Use the ${isDark() ? "light" : "dark"} theme`}>${isDark() ? "☀" : "☾"}</button>
    <button type="button" @click=${showKeys} aria-label="Keys" title="Keys ( ? )">?</button>
    <span class="who">${caller && (caller.name || "open door")}</span>
    <button type="button" ?hidden=${!caller?.name && !auth.isRefused()} @click=${() => auth.signOut()}>Sign out</button>`;
}

/** @param {string} path */
const isWithin = (path) => current === path || current.startsWith(`${path}/`);

/** @param {SubmitEvent} event */
function search(event) {
  event.preventDefault();
  const text = new FormData(/** @type {HTMLFormElement} */ (event.target)).get("q");
  if (String(text).trim()) go(link("/find", { q: String(text).trim() }));
}

const isDark = () =>
  (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function changeTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("piecework.theme", theme);
  } catch {
    // storage is switched off: the theme holds until the page is loaded again
  }
  render(frame(), /** @type {Element} */ (document.getElementById("head")));
}

function showKeys() {
  const dialog = document.createElement("dialog");
  const keys = [["/", "search by any id"], ["?", "these keys"], ...ROUTES.filter((route) => route.key).map(({ key, name }) => [`g ${key}`, name])];
  document.body.append(dialog);
  for (const kind of ["cancel", "close"]) dialog.addEventListener(kind, () => close(dialog));
  document.addEventListener("pw-moved", () => close(dialog), { once: true });
  render(
    html`<form method="dialog"><h2>Keys</h2>
      <dl class="facts">${keys.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
      <p class="verbs"><button class="main">Close</button></p></form>`,
    dialog,
  );
  dialog.showModal();
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("input, textarea, select, dialog")) return;
  const wanted = ROUTES.find((route) => route.key === event.key && Date.now() < isAwaited);
  isAwaited = event.key === "g" ? Date.now() + WAIT_MS : 0;
  if (wanted) event.preventDefault(), go(link(wanted.path));
  else if (event.key === "/") event.preventDefault(), document.getElementById("search")?.focus();
  else if (event.key === "?") event.preventDefault(), showKeys();
}
