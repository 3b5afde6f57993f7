/** What is known of the thing that was clicked. */

import { h } from "./dom.js";
import { bytes, count, error, plural, time, typed, whole } from "./format.js";
import { ancestors } from "./model.js";

/** An error in words; where types or shapes differ there is no number, but a problem. */
function errorText({ max, scaled, ok, problem }) {
  if (problem) return problem;
  return `${error(scaled)} of the scale, ${error(max)} at most${ok ? "" : ": beyond tolerance"}`;
}

export class Panel {
  /** @param {HTMLElement} element @param {import("./model.js").Model} model @param {(box: object) => void} go @param {() => void} close */
  constructor(element, model, go, close) {
    Object.assign(this, { element, model, go, close });
  }

  fill(title, kind, ...parts) {
    const button = h("button", { class: "close", type: "button", "aria-label": "close", click: this.close }, "×");
    this.element.replaceChildren(h("header", null, h("div", null, h("h2", null, title), kind ? h("p", null, kind) : null), button), ...parts.flat().filter(Boolean));
    this.element.hidden = false;
    this.element.scrollTop = 0;
  }

  hide() {
    this.element.hidden = true;
  }

  box(box) {
    if (box.kind === "group") this.group(box);
    else if (box.kind === "node") this.node(box);
    else this.edge(box.kind === "input" ? box.gives : box.reads, box.kind);
  }

  node(box) {
    const { node } = box;
    const domain = node.domain ? `${node.domain}.` : "";
    this.fill(`${domain}${node.op}`, node.name,
      this.facts([
        ["module", this.path(box)],
        ["source", node.source && h("span", null, h("code", null, node.source), node.code ? h("pre", null, node.code.trim()) : null)],
        ["error against PyTorch", node.error && h("span", { class: node.error.ok ? "good" : "bad" }, errorText(node.error))],
        ["time", node.microseconds !== null ? this.share(time(node.microseconds), node.microseconds, this.model.root.sums.microseconds) : node.fused_into && `fused into ${node.fused_into}`],
        ["in onnxruntime", node.runtime_note],
        ["FLOPs", node.flops !== null && this.share(count(node.flops), node.flops, this.model.root.sums.flops)],
        ["memory traffic", bytes(node.memory)],
        ["parameters", node.parameters ? whole(node.parameters) : null],
      ]),
      this.section("Problems elsewhere", node.problems.length ? node.problems.map((text) => h("p", { class: "notice" }, text)) : null),
      this.section("Attributes", node.attributes.length ? this.facts(node.attributes.map(([name, text]) => [name, h("code", null, text)])) : null),
      this.section("Inputs", this.ports(node.in, true)),
      this.section("Outputs", this.ports(node.out, false)));
  }

  group(box) {
    const { sums } = box;
    const total = this.model.root.sums;
    const owner = box.body ? `body of ${box.parent.node.op}` : box.note;
    this.fill(box.label, box.synthetic ? "consecutive nodes, grouped to keep the drawing readable" : owner,
      this.facts([
        ["module", ancestors(box).length ? this.path(box) : null],
        ["nodes", whole(sums.nodes)],
        ["parameters", sums.parameters ? whole(sums.parameters) : null],
        ["FLOPs", sums.flops !== null && this.share(count(sums.flops), sums.flops, total.flops)],
        ["time", sums.microseconds !== null && this.share(time(sums.microseconds), sums.microseconds, total.microseconds)],
        ["memory traffic", bytes(sums.memory)],
        ["largest error", sums.error !== null && error(sums.error)],
      ]),
      this.section("Holds", h("ul", { class: "links" }, box.children.map((child) => h("li", null, this.link(child, `${child.label}${child.note ? ` · ${child.note}` : ""}`))))));
  }

  /** @param {number[]} values */
  edge(values, kind = "") {
    const shown = values.slice(0, 50);
    const first = this.model.values[values[0]];
    this.fill(values.length === 1 ? first.name : plural(values.length, "value"), kind ? `graph ${kind}` : "value",
      shown.map((v) => {
        const value = this.model.values[v];
        const producer = this.model.producer[v];
        return h("section", null, values.length > 1 ? h("h3", null, value.name) : null,
          this.facts([
            ["type", value.type], ["shape", value.shape && h("code", null, `[${value.shape.join(", ")}]`)], ["size", bytes(value.bytes)], ["value", value.preview && h("code", null, value.preview)],
            ["made by", producer && this.link(producer)],
            ["read by", h("ul", { class: "links" }, this.model.consumers[v].map((box) => h("li", null, this.link(box))))],
          ]));
      }),
      values.length > shown.length ? h("p", null, `and ${values.length - shown.length} more`) : null);
  }

  section(title, body) {
    return body ? h("section", null, h("h3", null, title), body) : null;
  }

  /** Pairs of a word and what is known; unknown ones are left out. */
  facts(pairs) {
    const found = pairs.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "");
    return found.length ? h("dl", null, found.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])) : null;
  }

  share(text, part, whole_) {
    return whole_ ? `${text} (${((part / whole_) * 100).toFixed(1)}% of the model)` : text;
  }

  path(box) {
    const names = box.node?.scope.map(([name, kind]) => (kind ? `${name} (${kind})` : name)) ?? [];
    if (names.length) return names.join(" › ");
    return ancestors(box).map((outer) => outer.label).join(" › ");
  }

  link(box, text = box.kind === "node" ? `${box.node.op} ${box.node.name}` : `${box.kind} ${box.label}`) {
    return h("button", { type: "button", class: "link", click: () => this.go(box) }, text);
  }

  /** The values of a node, each with the way to where it comes from or goes to. */
  ports(values, incoming) {
    if (!values.length) return null;
    return h("ol", { class: "ports", start: 0 }, values.map((v) => {
      if (v === null) return h("li", null, h("em", null, "left out"));
      const value = this.model.values[v];
      const ends = incoming ? [this.model.producer[v]].filter(Boolean) : this.model.consumers[v];
      return h("li", null, h("code", null, value.name), h("div", { class: "type" }, typed(value), value.kind === "weight" ? ` · weight${value.bytes ? `, ${bytes(value.bytes)}` : ""}` : ""),
        value.preview ? h("code", { class: "preview" }, value.preview) : null,
        ends.length ? h("div", null, incoming ? "from " : "to ", ends.slice(0, 12).map((box, i) => [i ? ", " : "", this.link(box)]), ends.length > 12 ? ` and ${ends.length - 12} more` : "") : null);
    }));
  }
}
