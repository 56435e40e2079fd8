// @ts-check
/** Addresses and pages: the History API, one page at a time, the focus on what is new. */
import { pairsOf } from "./api.js";
import * as auth from "./auth.js";
import { refreshTimes } from "./format.js";
import { LoadError } from "./load.js";
import { again } from "./parts/again.js";
import { failure } from "./parts/show.js";
import { html, render } from "./render.js";
import { ROUTES } from "./routes.js";
import { seen } from "./text.js";

export const CONSOLE = new URL("../../", import.meta.url).pathname; // ends with a slash

/**
 * What a page gets: the parameters of its address, and how to show itself. `signal` aborts when the person leaves.
 * @typedef {object} Place
 * @property {Record<string, string>} params
 * @property {Record<string, string>} query
 * @property {AbortSignal} signal
 * @property {(content: unknown, title?: string) => void} show
 * @typedef {{ title: string, open: (place: Place) => Promise<void> | void }} Page
 */

/** The address of a view: link("/pieces", { state: "failed" }). Give parts that are not constants through `part`.
 * A member with several values stands there as often.
 * @param {string} path @param {import("./api.js").Query} [query] */
export function link(path, query = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of pairsOf(query)) asked.append(name, value);
  return `${CONSOLE}${path.slice(1)}${asked.size ? `?${asked}` : ""}`;
}

const FIELDS = "input, textarea, select";
let leaving = new AbortController();
let isInField = false; // whether the person has gone to a field since they asked for a view: then they keep it

/** Go to a view. @param {string} address of `link` @param {{ replace?: boolean }} [how] */
export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  if (!replace) isInField = false;
  return open(true);
}

/** Show the view of the page's address, from now on at every change of it. */
export function start() {
  addEventListener("popstate", () => ((isInField = false), open(true)));
  for (const kind of ["focusin", "input"]) {
    document.addEventListener(kind, ({ target }) => (isInField ||= target instanceof Element && target.matches(FIELDS)));
  }
  document.addEventListener("click", (event) => {
    const anchor = /** @type {HTMLElement} */ (event.target).closest?.("a[href]");
    if (!(anchor instanceof HTMLAnchorElement) || !isOurs(event, anchor)) return;
    event.preventDefault();
    go(anchor.href);
  });
  again(async () => refreshTimes(document), 10_000, new AbortController().signal);
  forgetWithPerson();
  return open(false);
}

/** What was read for one person does not stay on the page for another. */
function forgetWithPerson() {
  let reader = auth.who()?.name;
  document.addEventListener("pw-signed-out", () => {
    leaving.abort();
    reader = undefined;
    render(html`<p class="quiet">Signed out.</p>`, /** @type {Element} */ (document.getElementById("main")));
  });
  auth.onCaller(() => {
    const caller = auth.who();
    if (!caller || caller.name === reader) return;
    if (reader !== undefined) document.getElementById("toasts")?.replaceChildren(); // they were for the one before
    (reader = caller.name), open(false);
  });
}

/** @param {MouseEvent} event @param {HTMLAnchorElement} anchor */
function isOurs(event, anchor) {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const isView = anchor.origin === location.origin && anchor.pathname.startsWith(CONSOLE) && !anchor.getAttribute("href")?.startsWith("#");
  return isPlain && isView && !anchor.target && !anchor.hasAttribute("download") && !event.defaultPrevented;
}

/** The route of a path under the console, and its parameters. @param {string} path */
export function matched(path) {
  const parts = path.split("/").filter(Boolean);
  for (const route of ROUTES) {
    const wanted = route.path.split("/").filter(Boolean);
    if (wanted.length !== parts.length || wanted.some((want, at) => want[0] !== ":" && want !== parts[at])) continue;
    const named = wanted.map((want, at) => [want.slice(1), parts[at], want[0]]).filter(([, , kind]) => kind === ":");
    try {
      return { route, params: Object.fromEntries(named.map(([name, value]) => [name, decodeURIComponent(value)])) };
    } catch {
      return null; // a `%` that begins nothing: no link of ours has one
    }
  }
  return null;
}

/** @param {boolean} isMove whether the person came from another view, so that the focus goes along */
async function open(isMove) {
  leaving.abort();
  const { signal } = (leaving = new AbortController());
  const main = /** @type {HTMLElement} */ (document.getElementById("main"));
  const found = matched(location.pathname.slice(CONSOLE.length - 1));
  const query = Object.fromEntries(new URLSearchParams(location.search));
  let isNew = true;
  const show = (/** @type {unknown} */ content, /** @type {string} */ title) => {
    if (signal.aborted) return;
    document.title = seen(`${title} · Piecework`);
    render(content, main);
    main.removeAttribute("aria-busy");
    const keeps = isInField && document.activeElement?.matches(FIELDS);
    if (isNew && isMove) scrollTo(0, 0), keeps || main.focus({ preventScroll: true });
    isNew = false;
  };
  main.setAttribute("aria-busy", "true");
  document.dispatchEvent(new CustomEvent("pw-moved", { detail: found?.route.path ?? "" }));
  if (!found) return show(html`<h1>No such page</h1><p>The address is not one of the console's. <a href=${link("/now")}>Go to Now</a>.</p>`, "No such page");
  try {
    const page = await found.route.page();
    await page.open({ params: found.params, query, signal, show: (content, title = page.title) => show(content, title) });
  } catch (error) {
    if (!signal.aborted) show(html`<h1>${found.route.name}</h1>${failure(error, () => (error instanceof LoadError && error.isOver ? location.reload() : open(true)))}`, found.route.name);
  }
}
