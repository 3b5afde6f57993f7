/**
 * The data of the page as a graph: who produces a value, who reads it, which boxes sit in which.
 *
 * @typedef {object} Box a node, a graph input or output, or a group (a module, the body of a node, a run of nodes)
 * @property {number} id
 * @property {"node"|"input"|"output"|"group"} kind
 * @property {string} label what is written large: the operator, or the name of the module
 * @property {string} note what is written small beside it: the module of a node, the class of a module
 * @property {Box|null} parent
 * @property {Box[]} children of a group, and the bodies of a node such as Loop or If
 * @property {object|null} node as in the data
 * @property {number} index position among the nodes of its graph
 * @property {number[]} reads values, those that bodies take from outside included
 * @property {number[]} gives values
 * @property {boolean} open
 * @property {boolean} synthetic made only to keep a long list readable
 * @property {object} sums see groups.js
 */

export class Model {
  /** @param {any} data see `onward.report` */
  constructor(data) {
    this.data = data;
    this.values = data.values;
    /** @type {Box[]} */
    this.boxes = [];
    /** @type {(Box|null)[]} */
    this.producer = data.values.map(() => null);
    /** @type {Box[][]} */
    this.consumers = data.values.map(() => []);
    this.root = this.box("group", "", "");
    this.root.open = true;
    this.root.leaves = this.leaves(data);
  }

  /** @returns {Box} */
  box(kind, label, note, more = {}) {
    const box = {
      id: this.boxes.length, kind, label, note, parent: null, children: [], node: null, index: -1, reads: [], gives: [],
      open: false, synthetic: false, sums: null, links: new Map(), dirty: true, ...more,
    };
    this.boxes.push(box);
    return box;
  }

  /** The boxes of one graph in execution order, its inputs first and its outputs last; `groups.js` puts them in groups. */
  leaves(graph) {
    const inputs = graph.inputs.map((v) => this.box("input", this.values[v].name || "input", "", { gives: [v] }));
    const nodes = graph.nodes.map((node, index) => this.leaf(node, index));
    const outputs = graph.outputs.map((v) => this.box("output", this.values[v].name || "output", "", { reads: [v] }));
    const all = [...inputs, ...nodes, ...outputs];
    for (const box of all) {
      for (const v of box.gives) this.producer[v] = box;
      for (const v of new Set(box.kind === "node" ? present(box.node.in) : box.reads)) this.consumers[v].push(box);
    }
    return all;
  }

  leaf(node, index) {
    const box = this.box("node", node.op, "", { node, index, gives: present(node.out) });
    box.bodies = node.graphs.map((graph) => ({ name: graph.name, leaves: this.leaves(graph) }));
    const inside = box.bodies.flatMap((body) => body.leaves);
    const made = new Set(inside.flatMap((inner) => inner.gives));
    const taken = inside.flatMap((inner) => inner.reads).filter((v) => !made.has(v));
    box.reads = [...new Set([...present(node.in), ...taken])];
    return box;
  }

  /** The box that stands for this one: itself, or the outermost closed group around it. */
  shown(box) {
    let found = box;
    for (let at = box.parent; at; at = at.parent) if (!at.open) found = at;
    return found;
  }

  /** The shown boxes after (or before) a shown box, along its edges. @returns {Box[]} */
  neighbours(box, forward) {
    const found = new Set();
    for (const leaf of inner(box)) {
      const next = forward
        ? leaf.gives.flatMap((v) => this.consumers[v])
        : leaf.reads.map((v) => this.producer[v]).filter(Boolean);
      for (const other of next) {
        const shown = this.shown(other);
        if (shown !== box && !within(shown, box) && !within(box, shown)) found.add(shown);
      }
    }
    return [...found];
  }
}

const present = (list) => list.filter((v) => v !== null);

/** Whether a box lies somewhere in another. */
export function within(box, outer) {
  for (let at = box.parent; at; at = at.parent) if (at === outer) return true;
  return false;
}

/** Every node, input and output in a box, itself included. */
export function* inner(box) {
  if (box.kind !== "group") yield box;
  for (const child of box.children) yield* inner(child);
}

/** The modules around a box, outermost first. */
export function ancestors(box) {
  const found = [];
  for (let at = box.parent; at?.parent; at = at.parent) found.unshift(at);
  return found;
}
