// @ts-check
/**
 * <pw-rows>: a list of any length that draws only what is seen; every row has one height.
 * Set it up in a template: html`<pw-rows .items=${events} .row=${(event) => html`…`} .itemkey=${(event) => event.id} aria-label="Events">`.
 */
import { each, html, render } from "../render.js";

const ROW_PX = 28;
const BEYOND = 12; // rows above and below what is seen
const MOST_PX = 8_000_000; // browsers do not draw taller elements

export class Rows extends HTMLElement {
  /** @type {any[]} */
  #items = [];
  /** @type {(item: any, at: number) => unknown} */
  #row = String;
  /** @type {(item: any) => unknown} */
  #key = (item) => item;
  #isAsked = false;
  #space = document.createElement("div");
  #window = document.createElement("div");
  #watch = new ResizeObserver(() => this.#ask());

  set items(/** @type {any[]} */ items) {
    const isAtEnd = this.scrollHeight - this.scrollTop - this.clientHeight < ROW_PX && this.#items.length > 0;
    this.#items = items;
    this.#ask(() => isAtEnd && this.hasAttribute("follow") && (this.scrollTop = this.scrollHeight));
  }
  get items() {
    return this.#items;
  }
  set row(/** @type {(item: any, at: number) => unknown} */ row) {
    this.#row = row;
    this.#ask();
  }
  set itemkey(/** @type {(item: any) => unknown} */ key) {
    this.#key = key;
  }

  connectedCallback() {
    if (!this.#space.isConnected) this.append(this.#space), this.#space.append(this.#window);
    this.tabIndex = 0;
    this.setAttribute("role", "list");
    this.addEventListener("scroll", () => this.#ask(), { passive: true });
    this.#watch.observe(this);
  }
  disconnectedCallback() {
    this.#watch.disconnect();
  }

  /** Scroll so that an item is seen. @param {number} at */
  reveal(at) {
    this.scrollTop = Math.max(0, at * ROW_PX - this.clientHeight / 2);
  }

  #ask(then = () => /** @type {unknown} */ (undefined)) {
    if (this.#isAsked) return;
    this.#isAsked = true;
    requestAnimationFrame(() => {
      this.#isAsked = false;
      this.#draw();
      then();
    });
  }

  #draw() {
    const first = Math.max(0, Math.floor(this.scrollTop / ROW_PX) - BEYOND);
    const seen = this.#items.slice(first, first + Math.ceil((this.clientHeight || 400) / ROW_PX) + 2 * BEYOND);
    this.#space.style.height = `${Math.min(this.#items.length * ROW_PX, MOST_PX)}px`;
    this.#window.style.transform = `translateY(${first * ROW_PX}px)`;
    const total = this.#items.length;
    render(
      each(seen, this.#key, (item, at) => html`<div class="row" role="listitem" aria-setsize=${total} aria-posinset=${first + at + 1}>
        ${this.#row(item, first + at)}
      </div>`),
      this.#window,
    );
  }
}
customElements.define("pw-rows", Rows);
