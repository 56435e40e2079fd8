// @ts-check
/**
 * Templates that escape by construction: html`<p class=${name}>${text}</p>`, shown by render(template, element).
 *
 * What stands in a hole is text, never markup, and what cannot be seen in it is written out (`text.js`), also in attributes that
 * are read out or shown. A text that is read from the right stays by itself, in a <bdi>. `@click=${f}` listens, `?disabled=${b}` switches an attribute, `.value=${v}`
 * sets a property. Attributes `on…`, `style` and `srcdoc` are refused, and so is every address that is not http or https.
 */
import { isTurning, seen } from "./text.js";

const FOUND = /pw-hole-(\d+)\./g;
const ADDRESSES = new Set(["href", "src", "action", "formaction", "xlink:href", "poster", "data", "ping", "cite"]);
const SHOWN = /^(title|alt|label|placeholder|aria-.*)$/;
const PROPERTIES = new Set(["value", "checked", "selected", "open", "indeterminate", "disabled"]);
const REFUSED = /^[.?@]?(on.*|style|srcdoc)$/;
// Only this module has the policy, and gives it the strings of templates alone.
const { trustedTypes } = /** @type {any} */ (globalThis);
const policy = trustedTypes?.createPolicy("piecework", { createHTML: (/** @type {string} */ text) => text });

/** @typedef {{ node: number, name: string, pieces: string[], holes: number[] }} Spot a place of holes; a child has no name */
const parsed = /** @type {WeakMap<object, { content: DocumentFragment, spots: Spot[] }>} */ (new WeakMap());
const rendered = /** @type {WeakMap<Node, Region>} */ (new WeakMap());

class Template {
  strings = /** @type {TemplateStringsArray} */ (Object([]));
  values = /** @type {unknown[]} */ ([]);
}
class Keyed {
  entries = /** @type {unknown[][]} */ ([]); // key and value of each item
}
/** @param {TemplateStringsArray} strings @param {unknown[]} values */
export const html = (strings, ...values) => Object.assign(new Template(), { strings, values });
/** A list whose items keep their elements as long as they keep their key.
 * @template T @param {Iterable<T>} items @param {(item: T) => unknown} key @param {(item: T, at: number) => unknown} made */
export const each = (items, key, made) =>
  Object.assign(new Keyed(), { entries: [...items].map((item, at) => [key(item), made(item, at)]) });

/** Show a template, a text or a list as the only content of an element. @param {unknown} value @param {Element} into */
export function render(value, into) {
  let region = rendered.get(into);
  if (region?.end.parentNode !== into) {
    into.replaceChildren();
    rendered.set(into, (region = new Region(into, null)));
  }
  region.set(value);
}

/** Whether a text is an address that a page may link to. @param {unknown} text */
export function isAddress(text) {
  const base = document.baseURI;
  return URL.canParse(String(text), base) && /^https?:$/.test(new URL(String(text), base).protocol);
}

/** @param {TemplateStringsArray} strings */
function parse(strings) {
  const text = strings.reduce((made, part, at) => {
    const isInTag = made.lastIndexOf("<") > made.lastIndexOf(">");
    return made + (isInTag ? `pw-hole-${at - 1}.` : `<!--pw-hole-${at - 1}.-->`) + part;
  });
  const element = document.createElement("template");
  element.innerHTML = /** @type {string} */ (policy ? policy.createHTML(text) : text);
  /** @type {Spot[]} */
  const spots = [];
  nodesOf(element.content).forEach((node, at) => {
    if (node instanceof Comment && node.data.match(FOUND)) spots.push(spot(at, "", node.data));
    for (const { name, value } of node instanceof Element ? [...node.attributes] : []) {
      if (REFUSED.test(name)) throw new TypeError(`a template may not have the attribute ${name}`);
      if (value.match(FOUND)) spots.push(spot(at, name, value)), /** @type {Element} */ (node).removeAttribute(name);
    }
  });
  const holes = spots.reduce((sum, { holes }) => sum + holes.length, 0);
  if (holes !== strings.length - 1) throw new TypeError("a hole stands where neither a child nor a value can be");
  return { content: element.content, spots };
}

/** @param {number} node @param {string} name @param {string} text @returns {Spot} */
function spot(node, name, text) {
  const parts = text.split(FOUND);
  return { node, name, pieces: parts.filter((_, at) => at % 2 === 0), holes: parts.filter((_, at) => at % 2).map(Number) };
}

/** @param {DocumentFragment} root */
function nodesOf(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  return nodes;
}

/** A template's own nodes, and what writes values into them. @param {TemplateStringsArray} strings */
function instance(strings) {
  const { content, spots } = parsed.get(strings) ?? parse(strings);
  parsed.set(strings, { content, spots });
  const fragment = document.importNode(content, true);
  const nodes = /** @type {any[]} */ (nodesOf(fragment));
  return { strings, fragment, parts: spots.map((spot) => (spot.name ? attribute : child)(nodes[spot.node], spot)) };
}

/** @param {Comment} anchor @param {Spot} where @returns {(values: unknown[]) => void} */
function child(anchor, { holes }) {
  const region = new Region(/** @type {Node} */ (anchor.parentNode), anchor);
  return (values) => region.set(values[holes[0]]);
}

/** @param {HTMLElement} element @param {Spot} where @returns {(values: unknown[]) => void} */
function attribute(element, { name, pieces, holes }) {
  const [kind, bare] = [name[0], name.slice(1)];
  let last = /** @type {any} */ (undefined);
  if (kind === "@") element.addEventListener(bare, (event) => last?.call(element, event));
  if (kind === "." && !PROPERTIES.has(bare) && !element.localName.includes("-")) throw new TypeError(`no property ${name}`);
  return (values) => {
    const isWhole = pieces.length === 2 && !pieces.join("");
    const joined = () => pieces.reduce((made, piece, at) => `${made}${values[holes[at - 1]] ?? ""}${piece}`);
    const value = /** @type {any} */ (isWhole ? values[holes[0]] : joined());
    if (kind === "@" && value != null && typeof value !== "function") throw new TypeError(`${name} takes a function`);
    const isSame = value === last && kind !== ".";
    last = value;
    if (isSame || kind === "@") return;
    if (kind === "?") element.toggleAttribute(bare, Boolean(value));
    else if (kind === ".") /** @type {any} */ (element)[bare] === value || (/** @type {any} */ (element)[bare] = value);
    else if (value == null || (ADDRESSES.has(name) && !isAddress(value))) element.removeAttribute(name);
    else element.setAttribute(name, SHOWN.test(name) ? seen(value) : value);
  };
}

/** What stands between two marks. */
class Region {
  items = /** @type {Map<unknown, Region>} */ (new Map());
  shown = /** @type {any} */ (null); // an instance, a text, a node, or the class of lists

  /** @param {Node} parent @param {Node | null} end */
  constructor(parent, end) {
    this.end = end ?? parent.appendChild(new Comment());
    this.start = parent.insertBefore(new Comment(), this.end);
  }
  /** @param {unknown} value */
  set(value) {
    if (Array.isArray(value)) value = each(value.entries(), ([at]) => at, ([, item]) => item);
    if (value instanceof Keyed) return this.list(value.entries);
    if (value instanceof Template) {
      if (this.shown?.strings !== value.strings) this.only(instance(value.strings));
      for (const part of this.shown.parts) part(value.values);
    } else if (value instanceof Node) this.shown === value || this.only(value);
    else {
      const text = value == null || typeof value === "boolean" ? "" : seen(value);
      if (isTurning(text)) {
        if (this.shown?.localName !== "bdi" || this.shown.textContent !== text) this.only(Object.assign(document.createElement("bdi"), { textContent: text }));
      } else if (!(this.shown instanceof Text)) this.only(new Text(text));
      else if (this.shown.data !== text) this.shown.data = text;
    }
  }
  /** @param {any} shown */
  only(shown) {
    this.nodes().slice(1, -1).forEach((node) => node.remove());
    this.items.clear();
    this.shown = shown;
    if (shown !== Keyed) this.end.parentNode?.insertBefore(shown.fragment ?? shown, this.end);
  }
  /** @param {unknown[][]} entries */
  list(entries) {
    if (this.shown !== Keyed) this.only(Keyed);
    const wanted = new Map();
    for (const [key, value] of entries) wanted.set(wanted.has(key) ? Symbol("again") : key, value); // none is left out
    for (const [key, region] of this.items) {
      if (!wanted.has(key)) this.items.delete(key), region.nodes().forEach((node) => node.remove());
    }
    let before = /** @type {Node} */ (this.start.nextSibling);
    for (const [key, value] of wanted) {
      const parent = /** @type {Node} */ (this.end.parentNode);
      let region = this.items.get(key);
      if (!region) this.items.set(key, (region = new Region(parent, parent.insertBefore(new Comment(), before))));
      else if (region.start !== before) region.nodes().forEach((node) => parent.insertBefore(node, before));
      region.set(value);
      before = /** @type {Node} */ (region.end.nextSibling);
    }
  }
  nodes() {
    const found = [/** @type {ChildNode} */ (this.start)];
    while (found[found.length - 1] !== this.end) found.push(/** @type {ChildNode} */ (found[found.length - 1].nextSibling));
    return found;
  }
}
