/** Find nodes, modules, values and weights by any part of their names. */

import { h } from "./dom.js";
import { ancestors } from "./model.js";

const MOST = 60;

/** One line of text per box, and what it is called in the list. */
function index(model) {
  return model.boxes.filter((box) => box !== model.root && !box.synthetic).map((box) => {
    const { node } = box;
    const path = ancestors(box).filter((outer) => !outer.synthetic).map((outer) => outer.label).join(".");
    const values = [...box.reads.filter((v) => model.values[v].kind === "weight"), ...box.gives].map((v) => model.values[v].name);
    const scope = node ? node.scope.flat().join(" ") : "";
    const text = [box.label, box.note, node?.name, node?.domain, scope, node?.scope.map(([name]) => name).join("."), path, node?.source, node?.code, ...values].filter(Boolean).join("\n").toLowerCase();
    const name = node ? node.name : box.kind === "group" ? box.note : box.kind;
    return { box, text, title: box.label, name, path };
  });
}

export class Search {
  /** @param {HTMLInputElement} input @param {HTMLElement} list @param {(box: object) => void} go */
  constructor(input, list, model, go) {
    Object.assign(this, { input, list, go, model, entries: null, found: [], at: 0 });
    input.addEventListener("input", () => this.run());
    input.addEventListener("focus", () => input.value && this.run());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", (event) => !list.contains(event.relatedTarget) && this.close());
  }

  run() {
    this.entries ??= index(this.model);
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      this.close();
      return;
    }
    const hits = this.entries.filter(({ text }) => words.every((word) => text.includes(word)));
    const rank = ({ title }) => (title.toLowerCase() === words[0] ? 0 : title.toLowerCase().startsWith(words[0]) ? 1 : 2);
    hits.sort((a, b) => rank(a) - rank(b));
    this.found = hits.slice(0, MOST);
    this.at = 0;
    const rows = this.found.map((hit, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === 0), tabindex: -1, mousedown: (event) => event.preventDefault(), click: () => this.choose(i) },
      h("b", null, hit.title), " ", hit.name, hit.path ? h("small", null, hit.path) : null));
    const total = h("li", { class: "total", "aria-live": "polite" }, hits.length === 0 ? "nothing found" : hits.length > MOST ? `${MOST} of ${hits.length} shown` : `${hits.length} found`);
    this.list.replaceChildren(total, ...rows);
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  mark() {
    this.list.querySelectorAll("[role=option]").forEach((row, i) => {
      row.setAttribute("aria-selected", String(i === this.at));
      if (i === this.at) row.scrollIntoView({ block: "nearest" });
    });
    if (this.found.length) this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.found.length) {
      this.at = (this.at + step + this.found.length) % this.found.length;
      this.mark();
    } else if (event.key === "Enter" && this.found.length) this.choose(this.at);
    else if (event.key === "Escape") {
      if (this.list.hidden) this.input.blur();
      this.close();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  choose(i) {
    const { box } = this.found[i];
    this.close();
    this.go(box);
  }

  close() {
    this.list.hidden = true;
    this.found = [];
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
