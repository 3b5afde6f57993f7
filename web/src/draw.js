/** The drawing: laid-out boxes as SVG, groups nested as they are in the model. */

import { s } from "./dom.js";
import { plural, typed } from "./format.js";
import { curve } from "./layout.js";
import { boxText } from "./sizes.js";

const MANY_EDGES = 1500; // beyond it, edges have no wider invisible line to hit

export class Drawing {
  /** @param {import("./model.js").Model} model @param {import("./colours.js").Colours} colours */
  constructor(model, colours) {
    this.model = model;
    this.colours = colours;
    /** @type {Map<number, SVGElement>} */
    this.elements = new Map();
    /** @type {{values: number[], element: SVGElement}[]} */
    this.edges = [];
    this.layer = s("g", { class: "layer" });
  }

  /** Draw everything anew; the layout is done. */
  render() {
    this.elements.clear();
    this.edges = [];
    this.layer.replaceChildren(...this.inside(this.model.root));
  }

  inside(group) {
    const lines = group.routes.map((route) => this.edge(route));
    return [s("g", { class: "edges" }, lines), ...group.children.map((child) => this.box(child))];
  }

  edge({ points, values, arrow }) {
    const path = curve(points);
    const index = this.edges.length;
    const names = values.map((v) => this.model.values[v]);
    const text = names.length === 1 ? `${names[0].name}\n${typed(names[0])}` : plural(names.length, "value");
    const line = s("path", { class: "edge", d: path, "marker-end": arrow ? "url(#arrow)" : null });
    const element = s("g", { class: "link", "data-edge": index }, s("title", null, text), line);
    if (index < MANY_EDGES) element.append(s("path", { class: "hit", d: path }));
    this.edges.push({ values, element });
    return element;
  }

  box(box) {
    const holds = box.children.length > 0;
    const { large, small, below, held } = boxText(box);
    const opened = holds && box.open;
    const parts = [
      s("title", null, [box.label, box.note].filter(Boolean).join(" · ")),
      s("rect", { class: "shape", width: box.width, height: box.height, rx: box.kind === "node" ? 5 : box.kind === "group" ? 9 : 14 }),
    ];
    const left = holds ? 24 : 10;
    if (holds) parts.push(s("text", { class: "toggle", x: 8, y: 18, "data-toggle": box.id, "aria-hidden": "true" }, opened ? "⊟" : "⊞"));
    parts.push(s("text", { class: "large", x: left, y: 18 }, large, small ? s("tspan", { class: "small", dx: 7 }, small) : null));
    if (below && !opened) parts.push(s("text", { class: "below", x: holds ? 24 : 10, y: 33 }, below));
    if (held && !opened) parts.push(s("text", { class: "below", x: left, y: below ? 47 : 33 }, held));
    if (box.sums?.wrong) parts.push(s("circle", { class: "mark", cx: box.width, cy: 0, r: 5 }, s("title", null, "differs from PyTorch")));
    if (opened) parts.push(...this.inside(box));
    const element = s("g", {
      class: `box ${box.kind}${opened ? " open" : ""}${box.synthetic ? " synthetic" : ""}`, "data-id": box.id, tabindex: 0, role: "button",
      "aria-label": label(box, below), "aria-expanded": holds ? String(opened) : null, transform: `translate(${box.x} ${box.y})`,
    }, parts);
    this.elements.set(box.id, element);
    this.paint(box, element);
    return element;
  }

  paint(box, element) {
    const shape = element.querySelector(":scope > .shape");
    for (const name of ["data-family", "data-heat", "style"]) shape.removeAttribute(name);
    for (const [name, value] of Object.entries(this.colours.of(box))) shape.setAttribute(name, value);
  }

  /** The colours changed, nothing moved. */
  repaint() {
    for (const [id, element] of this.elements) this.paint(this.model.boxes[id], element);
  }

  /** Mark a box (or the edge of some values) and the edges of its values. */
  select(box, values) {
    for (const element of this.layer.querySelectorAll(".selected, .touched")) element.classList.remove("selected", "touched");
    if (box) this.elements.get(box.id)?.classList.add("selected");
    const touched = new Set(values);
    for (const { values: carried, element } of this.edges) if (carried.some((v) => touched.has(v))) element.classList.add("touched");
  }
}

const KIND = { node: "", input: "input ", output: "output ", group: "module " };
const label = (box, below) => `${KIND[box.kind]}${[box.label, box.note, below].filter(Boolean).join(", ")}`;

/** A box's place in the whole drawing. */
export function place(box) {
  let [x, y] = [0, 0];
  for (let at = box; at.parent; at = at.parent) {
    x += at.x;
    y += at.y;
  }
  return { x, y, width: box.width, height: box.height };
}
