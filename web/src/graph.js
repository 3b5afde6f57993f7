/** The graph tab: toolbar, drawing, panel, and what keys and clicks do there. */

import { Colours, modes } from "./colours.js";
import { h, s } from "./dom.js";
import { Drawing } from "./draw.js";
import { layout, touch } from "./layout.js";
import { ancestors, within } from "./model.js";
import { Panel } from "./panel.js";
import { Search } from "./search.js";
import { View } from "./view.js";

const AT_FIRST = 60; // boxes

export class Graph {
  /** @param {import("./model.js").Model} model @param {(id: string) => void} showTab */
  constructor(model, showTab) {
    this.model = model;
    this.showTab = showTab;
    this.selected = null;
    this.colours = new Colours(model);
    this.drawing = new Drawing(model, this.colours);
    this.element = this.build();
    this.view = new View(this.svg, this.drawing.layer, model, this.map);
    this.panel = new Panel(this.aside, model, (box) => this.go(box), () => this.select(null));
    this.search = new Search(this.input, this.list, model, (box) => this.go(box));
    this.svg.addEventListener("click", (event) => this.click(event));
    this.svg.addEventListener("dblclick", (event) => this.doubleClick(event));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("focusin", (event) => this.focused(event));
  }

  build() {
    const button = (text, title, click) => h("button", { type: "button", title, "aria-label": title, click }, text);
    this.input = h("input", { type: "search", placeholder: "Search (/)", "aria-label": "search nodes, operators, modules, weights, lines", role: "combobox", "aria-controls": "found", "aria-expanded": "false", autocomplete: "off", spellcheck: "false" });
    this.list = h("ul", { id: "found", role: "listbox", "aria-label": "found", hidden: true });
    const colour = h("select", { "aria-label": "colour by", change: (event) => this.colour(event.target.value) }, modes(this.model.root).map(([id, title]) => h("option", { value: id }, title)));
    const depth = h("select", { "aria-label": "open to depth", change: (event) => event.target.value && this.openTo(Number(event.target.value)) });
    const deepest = this.model.boxes.reduce((most, box) => Math.max(most, box.children.length && box.parent ? ancestors(box).length + 1 : 0), 0);
    depth.append(h("option", { value: "" }, "depth"), ...Array.from({ length: Math.min(deepest + 1, 9) }, (_, i) => h("option", { value: i }, String(i))));
    this.depth = depth;
    this.svg = s("svg", { class: "drawing", role: "group", "aria-label": "graph of the model" },
      s("defs", null, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 1 L7 4 L0 7z" }))), this.drawing.layer);
    this.map = h("canvas", { class: "map", width: 150, height: 110, "aria-hidden": "true" });
    this.legend = h("ul", { class: "legend", "aria-label": "legend" });
    this.aside = h("aside", { class: "panel", "aria-label": "details", hidden: true });
    return h("div", { class: "graph" },
      h("div", { class: "toolbar", role: "toolbar", "aria-label": "graph" },
        h("div", { class: "search" }, this.input, this.list),
        h("span", { class: "set" }, button("−", "zoom out (-)", () => this.view.zoom(1 / 1.3)), button("+", "zoom in (+)", () => this.view.zoom(1.3)), button("fit", "show all (0)", () => this.view.fit())),
        h("span", { class: "set" }, button("⊟ all", "close all groups", () => this.openTo(0)), depth, button("⊞ all", "open all groups", () => this.openTo(Infinity))),
        h("label", { class: "set" }, h("span", { class: "wideonly" }, "colour "), colour)),
      h("div", { class: "stage" }, h("div", { class: "canvas" }, this.svg, this.map, h("details", { class: "key", open: window.innerWidth > 700 }, h("summary", null, "legend"), this.legend)), this.aside));
  }

  /** The first drawing. */
  start() {
    openUpTo(this.model, AT_FIRST);
    this.colour("family");
    this.draw();
    this.view.begin();
  }

  draw() {
    const begun = performance.now();
    layout(this.model.root);
    const laid = performance.now();
    this.drawing.render();
    this.markSelected();
    console.info(`onward: ${this.drawing.elements.size} boxes, layout ${Math.round(laid - begun)} ms, drawing ${Math.round(performance.now() - laid)} ms`);
  }

  colour(mode) {
    this.colours.use(mode);
    this.drawing.repaint();
    this.legend.replaceChildren(...this.colours.legend().map(([attributes, text]) => h("li", null, h("i", attributes), text)));
  }

  /** Open or close a group and stay where one is. */
  toggle(box) {
    if (!box.children.length) return;
    box.open = !box.open;
    touch(box);
    if (!box.open && this.selected?.kind && within(this.selected, box)) this.selected = box;
    this.view.holding(box, () => this.draw());
    this.drawing.elements.get(box.id)?.focus({ preventScroll: true });
  }

  /** Open every group above a depth, close the others. */
  openTo(depth) {
    for (const box of this.model.boxes) {
      if (box === this.model.root || !box.children.length) continue;
      box.open = ancestors(box).length < depth;
      touch(box);
    }
    this.depth.value = "";
    if (this.selected?.kind) this.selected = this.model.shown(this.selected);
    this.draw();
    this.view.begin();
  }

  /** Show a box, wherever it is. */
  go(box) {
    this.showTab("graph");
    let changed = false;
    for (const outer of ancestors(box)) {
      if (outer.open) continue;
      outer.open = true;
      touch(outer);
      changed = true;
    }
    if (changed) this.draw();
    this.select(box);
    this.view.center(box);
    this.drawing.elements.get(box.id)?.focus({ preventScroll: true });
  }

  /** @param {object|null} what a box, or an edge `{values}` */
  select(what) {
    this.selected = what;
    this.markSelected();
    if (!what) this.panel.hide();
    else if (what.kind) this.panel.box(what);
    else this.panel.edge(what.values);
  }

  markSelected() {
    const what = this.selected;
    if (!what) this.drawing.select(null, []);
    else if (!what.kind) this.drawing.select(null, what.values);
    else this.drawing.select(what, what.kind === "group" ? [] : [...what.reads, ...what.gives]);
  }

  boxOf(target) {
    const element = target.closest?.("[data-id]");
    return element ? this.model.boxes[Number(element.dataset.id)] : null;
  }

  click(event) {
    if (this.view.moved) return;
    const edge = event.target.closest("[data-edge]");
    const box = this.boxOf(event.target);
    if (event.target.dataset.toggle) this.toggle(box);
    else if (edge) this.select({ values: this.drawing.edges[Number(edge.dataset.edge)].values });
    else if (box) this.select(box);
    else this.select(null);
  }

  doubleClick(event) {
    const box = this.boxOf(event.target);
    if (box && !event.target.dataset.toggle && !event.target.closest("[data-edge]")) this.toggle(box);
  }

  focused(event) {
    const box = this.boxOf(event.target);
    if (box && event.target.matches(":focus-visible")) this.view.reveal(box);
  }

  /** Keys on a box: along its edges, and into it. */
  key(event) {
    const box = this.boxOf(event.target);
    if (!box || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      if (box.children.length && this.selected === box) this.toggle(box);
      else this.select(box);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.step(box, event.key === "ArrowDown");
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.aside_(box, event.key === "ArrowRight");
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Along an edge; from an open group into it. */
  step(box, forward) {
    const inside = box.open && box.children.length ? (forward ? box.children[0] : box.children.at(-1)) : null;
    const [next] = inside ? [inside] : this.model.neighbours(box, forward);
    if (next) this.walk(next, box);
  }

  /** To another box that the one we came from leads to, or else to a neighbour in the same group. */
  aside_(box, right) {
    const from = this.from && this.from !== box ? this.from : null;
    let beside = from ? this.model.neighbours(from, true) : [];
    if (!beside.includes(box)) beside = from ? this.model.neighbours(from, false) : [];
    if (!beside.includes(box) || beside.length < 2) beside = box.parent.children;
    const next = beside[(beside.indexOf(box) + (right ? 1 : -1) + beside.length) % beside.length];
    if (next && next !== box) this.walk(next, beside === box.parent.children ? null : from);
  }

  walk(box, from) {
    this.from = from;
    this.select(box);
    this.view.reveal(box);
    this.drawing.elements.get(box.id)?.focus({ preventScroll: true });
  }
}

/** Open level after level while the drawing stays below so many boxes; what does not fit as a level stays closed. */
export function openUpTo(model, most) {
  let shown = model.root.children.length;
  let level = model.root.children;
  while (level.length) {
    const groups = level.filter((box) => box.kind === "group" && box.children.length && box.sums.nodes);
    const more = groups.reduce((all, box) => all + box.children.length, 0);
    if (!groups.length || shown + more > most) {
      if (shown > most / 3) return;
      // one big group among small ones: open the small ones, and the first big one that fits
      groups.sort((a, b) => a.children.length - b.children.length);
    }
    const next = [];
    for (const box of groups) {
      if (shown + box.children.length > most) continue;
      box.open = true;
      shown += box.children.length;
      next.push(...box.children);
    }
    level = next;
  }
}
