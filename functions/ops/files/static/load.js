// @ts-check
/**
 * Loads the console's modules: few files at a time, once more where the door is busy, and the page begins with them.
 *
 * A browser asks for all that a module imports at once, and takes the first refusal for good. So a file is fetched before it is
 * imported, and so is what it imports: the import finds all of it in the browser's cache, where it is kept for good.
 */
const AT_ONCE = 4; // requests: each may need an environment of a function
const TRIES = 4; // of a file
const WAIT_MS = 500; // before the second try, twice as long before each further one
const LONGEST_WAIT_S = 5;
const ANSWER_MS = 20_000; // for a file and its whole text; what takes longer would keep others from coming
const BUSY = [429, 500, 502, 503, 504];
const IMPORTED = /^(?:import|export)\b[^;]*?"(\.{1,2}\/[^"]+)";$/gm;

/** A file that does not come. `isOver`: the page itself is to be loaded again. */
export class LoadError extends Error {
  /** @param {string} message @param {boolean} isOver */
  constructor(message, isOver) {
    super(message);
    this.isOver = isOver;
  }
}

/** @type {Map<string, Promise<string[]>>} what each file imports, which is here or on its way */
const files = new Map();
const waiting = /** @type {(() => void)[]} */ ([]);
let open = 0;

/** A module and all that it imports. @param {string} name beside this file @returns {Promise<any>} @throws {LoadError} */
export async function load(name) {
  const url = new URL(name, import.meta.url).href;
  await whole(url, new Set());
  return import(url).catch((error) => {
    console.error(error);
    throw new LoadError("The console's files came, but the browser did not take them. Load the page again.", true);
  });
}

/** @param {string} url @param {Set<string>} seen @returns {Promise<void>} */
async function whole(url, seen) {
  if (seen.has(url)) return;
  seen.add(url);
  const imports = files.get(url) ?? fetched(url).then((text) => [...text.matchAll(IMPORTED)].map(([, to]) => new URL(to, url).href));
  files.set(url, imports);
  imports.catch(() => files.delete(url)); // so that it is tried again
  await Promise.all((await imports).map((each) => whole(each, seen)));
}

/** The text of a file. @param {string} url */
async function fetched(url) {
  for (let tries = 1; ; tries += 1) {
    const { status, text, after } = await inTurn(() => once(url));
    if (status === 200) return text;
    if (status === 404) throw new LoadError("The console was updated. Load the page again.", true);
    const why = status ? `the door answered ${status}` : "the door cannot be reached";
    if (tries === TRIES || (status && !BUSY.includes(status))) throw new LoadError(`A file of the console did not come: ${why}.`, false);
    const wait = after ? 1_000 * Math.min(after, LONGEST_WAIT_S) : WAIT_MS * 2 ** (tries - 1);
    await new Promise((resolve) => setTimeout(resolve, wait * (1 + Math.random() / 4)));
  }
}

/** @param {string} url @returns {Promise<{ status: number, text: string, after: number }>} with `status` 0 when the whole answer did not come in time */
async function once(url) {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) });
    return { status: answer.status, text: await answer.text(), after: Number(answer.headers.get("Retry-After")) || 0 };
  } catch {
    return { status: 0, text: "", after: 0 };
  }
}

/** Do it when fewer than the most are under way. @template T @param {() => Promise<T>} act @returns {Promise<T>} */
async function inTurn(act) {
  if (open >= AT_ONCE) await new Promise((resolve) => waiting.push(() => resolve(null)));
  else open += 1;
  try {
    return await act();
  } finally {
    const next = waiting.shift();
    next ? next() : (open -= 1);
  }
}

/** Ask once more for styles that did not come; without them the page is plain, and works. */
async function dress() {
  for (const link of /** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll("link[rel=stylesheet]"))) {
    if (!rules(link)) await fetched(link.href).then(() => link.replaceWith(link.cloneNode()), () => null);
  }
}

/** How many rules came. @param {HTMLLinkElement} link */
function rules({ sheet }) {
  try {
    return sheet?.cssRules.length ?? 0;
  } catch {
    return 0; // of an answer that failed they cannot be read
  }
}

/** @param {Error} error */
function tell(error) {
  const [news, button] = [document.createElement("p"), document.createElement("button")];
  news.setAttribute("role", "alert");
  news.className = "failed";
  news.textContent = error.message;
  button.textContent = "Load the page again";
  button.addEventListener("click", () => location.reload());
  document.getElementById("main")?.replaceChildren(news, button);
}

dress();
load("main.js").catch(tell);
