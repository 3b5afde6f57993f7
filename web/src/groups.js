/**
 * Boxes in boxes: a group per module call, a group per body of a control-flow node, and, where a group would hold more
 * than a screen of boxes, groups of consecutive ones. All of it is decided once; opening and closing comes later.
 */

import { inner } from "./model.js";

const MOST_CHILDREN = 40;
const RUN = { least: 14, most: 30 };
const MOST_PORTS = 12; // inputs (outputs) that are drawn one by one

/** @param {import("./model.js").Model} model */
export function group(model) {
  arrange(model, model.root, model.root.leaves);
  link(model);
  sum(model, model.root);
}

/** Fill a group with the boxes of one graph. */
function arrange(model, parent, leaves) {
  const nodes = leaves.filter((box) => box.kind === "node");
  for (const box of nodes) bodies(model, box);
  const made = bundle(model, leaves.filter((box) => box.kind === "input"), "inputs");
  const taken = bundle(model, leaves.filter((box) => box.kind === "output"), "outputs");
  adopt(parent, [...made, ...modules(model, nodes, 0), ...taken]);
}

function adopt(parent, children) {
  parent.children = children;
  for (const child of children) child.parent = parent;
}

function bodies(model, box) {
  const made = box.bodies.map((body) => {
    const inside = model.box("group", body.name, "", { body: true });
    arrange(model, inside, body.leaves);
    return inside;
  });
  adopt(box, made);
}

/** Many inputs or outputs (caches, for instance) become one box. */
function bundle(model, boxes, word) {
  if (boxes.length <= MOST_PORTS) return boxes;
  const made = model.box("group", `${boxes.length} ${word}`, "", { synthetic: true });
  adopt(made, runs(model, boxes));
  return [made];
}

/** The children of a module: its own nodes and the modules it called, in the order of their first nodes. */
function modules(model, leaves, depth) {
  const calls = new Map();
  const turns = callNumbers(model, leaves, depth);
  leaves.forEach((leaf, i) => {
    const scope = leaf.node.scope[depth];
    const key = scope ? `${turns[i]}:${scope[0]}` : `#${leaf.id}`;
    if (!calls.has(key)) calls.set(key, { scope, turn: turns[i], leaves: [] });
    calls.get(key).leaves.push(leaf);
  });
  const children = [...calls.values()].map((call) => (call.scope ? moduleBox(model, call, depth) : call.leaves[0]));
  return runs(model, children);
}

function moduleBox(model, { scope, turn, leaves }, depth) {
  const children = modules(model, leaves, depth + 1);
  const label = turn ? `${scope[0]} (call ${turn + 1})` : scope[0];
  if (children.length === 1) {
    const [only] = children; // a module of one box is that box, by the module's name
    if (only.kind === "group") only.label = `${label}.${only.label}`;
    else only.note = only.note ? `${label}.${only.note}` : label;
    return only;
  }
  const box = model.box("group", label, scope[1] ?? "");
  adopt(box, children);
  return box;
}

/**
 * Which call of its module a node belongs to. A path that leaves a module and comes back to it has come to another call
 * (shared layers, recurrent cells): as one box these would be a circle.
 */
function callNumbers(model, leaves, depth) {
  const at = new Map(leaves.map((leaf, i) => [leaf, i]));
  const key = leaves.map((leaf) => leaf.node.scope[depth]?.[0] ?? null);
  if (key.every((name) => name === null)) return leaves.map(() => 0);
  const left = []; // per node: how often the longest path to it has left each module
  leaves.forEach((leaf, i) => {
    const mine = new Map();
    for (const v of leaf.reads) {
      const before = at.get(model.producer[v]);
      if (before === undefined || before >= i) continue;
      for (const [name, times] of left[before]) if (times > (mine.get(name) ?? 0)) mine.set(name, times);
      const name = key[before];
      if (name !== null && name !== key[i]) mine.set(name, Math.max(mine.get(name) ?? 0, (left[before].get(name) ?? 0) + 1));
    }
    left.push(mine);
  });
  return leaves.map((_, i) => (key[i] === null ? 0 : left[i].get(key[i]) ?? 0));
}

/** Too many boxes for one screen: runs of consecutive ones, cut where the fewest values cross. */
function runs(model, boxes) {
  while (boxes.length > MOST_CHILDREN) {
    const crossing = crossings(model, boxes);
    const made = [];
    for (let start = 0; start < boxes.length; ) {
      let end = Math.min(start + RUN.most, boxes.length);
      if (end < boxes.length) {
        for (let cut = start + RUN.most; cut >= start + RUN.least; cut -= 1) if (crossing[cut - 1] < crossing[end - 1]) end = cut;
      }
      made.push(run(model, boxes.slice(start, end)));
      start = end;
    }
    boxes = made;
  }
  return boxes;
}

function run(model, boxes) {
  if (boxes.length === 1) return boxes[0];
  const first = (box) => (box.first ? box.first : box);
  const last = (box) => (box.last ? box.last : box);
  const ends = [first(boxes[0]), last(boxes.at(-1))];
  const name = (box) => (box.kind === "node" ? box.note || box.label : box.label);
  const between = `${name(ends[0])} … ${name(ends[1])}`;
  const numbered = ends.every((box) => box.kind === "node"); // nodes of one graph are told apart by their numbers
  const made = numbered
    ? model.box("group", `nodes ${ends[0].index + 1}–${ends[1].index + 1}`, between)
    : model.box("group", between, "");
  Object.assign(made, { synthetic: true, first: ends[0], last: ends[1] });
  adopt(made, boxes);
  return made;
}

/** How many values pass between box i and box i + 1. */
function crossings(model, boxes) {
  const home = new Map();
  boxes.forEach((box, i) => {
    for (const leaf of inner(box)) home.set(leaf, i);
  });
  const change = new Array(boxes.length + 1).fill(0);
  for (const [leaf, i] of home) {
    for (const v of leaf.gives) {
      const last = Math.max(i, ...model.consumers[v].map((reader) => home.get(reader) ?? i));
      change[i] += 1;
      change[last] -= 1;
    }
  }
  let now = 0;
  return boxes.map((_, i) => (now += change[i]));
}

/**
 * Edges, per group: between two of its children, from its border to a child (a value from outside) and from a child to
 * its border. A group can so be laid out alone.
 */
function link(model) {
  const chain = (box) => {
    const found = [];
    for (let at = box; at; at = at.parent) found.unshift(at);
    return found;
  };
  const add = (owner, from, to, value) => {
    const key = `${from}>${to}`;
    if (!owner.links.has(key)) owner.links.set(key, { from, to, values: [] });
    const { values } = owner.links.get(key);
    if (!values.includes(value)) values.push(value);
  };
  model.producer.forEach((producer, v) => {
    if (!producer) return;
    const down = chain(producer);
    for (const reader of model.consumers[v]) {
      const up = chain(reader);
      let depth = 0;
      while (down[depth + 1] && down[depth + 1] === up[depth + 1]) depth += 1;
      if (!down[depth + 1] || !up[depth + 1]) continue; // a body that reads a value of its own node: nothing to draw
      add(down[depth], down[depth + 1].id, up[depth + 1].id, v);
      for (let i = depth + 1; i < down.length - 1; i += 1) add(down[i], down[i + 1].id, `o${v}`, v);
      for (let i = depth + 1; i < up.length - 1; i += 1) add(up[i], `i${v}`, up[i + 1].id, v);
    }
  });
}

/** What a box amounts to, with everything in it; null where nothing is known. */
function sum(model, box) {
  const total = { nodes: 0, parameters: 0, flops: null, memory: null, microseconds: null, error: null, wrong: 0, problems: 0, weights: new Set() };
  const more = (key, value) => {
    if (typeof value === "number") total[key] = (total[key] ?? 0) + value;
  };
  const { node } = box;
  if (node) {
    total.nodes = 1;
    total.problems = node.problems?.length ?? 0;
    for (const key of ["flops", "memory", "microseconds"]) more(key, node[key]);
    if (node.error) {
      total.error = number(node.error.scaled);
      total.wrong = node.error.ok ? 0 : 1;
    }
    if (node.parameters) for (const v of node.in) if (v !== null && model.values[v].kind === "weight") total.weights.add(v);
  }
  for (const child of box.children) {
    const part = sum(model, child);
    for (const key of ["nodes", "wrong", "problems"]) total[key] += part[key];
    if (!node) for (const key of ["flops", "memory", "microseconds"]) more(key, part[key]);
    if (part.error !== null) total.error = Math.max(total.error ?? 0, part.error);
    for (const v of part.weights) total.weights.add(v);
  }
  for (const v of total.weights) total.parameters += model.values[v].parameters ?? 0;
  if (node && !box.children.length) total.parameters = node.parameters;
  box.sums = total;
  return total;
}

/** An error that is no number is text ("nan", "inf"), or null where types or shapes differ: as wrong as can be. */
const number = (value) => (typeof value === "number" ? value : Infinity);
