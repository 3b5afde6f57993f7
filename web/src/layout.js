/**
 * Where everything goes. A group is laid out alone, after the open groups in it, and is one box to its parent: opening a
 * group moves what is around it and leaves the inside of its neighbours as it is. dagre does the layout proper; it is
 * spared chains (a stack of boxes is one box to it) and groups that look like one it has seen (the layers of a network).
 */

import dagre from "@dagrejs/dagre";
import { boxSize } from "./sizes.js";
import { thin, trunks } from "./trunks.js";

const GAP = 28; // between boxes of a stack
const RANKS = 34; // between ranks, where edges have to turn
const LANE = 7; // between lines that run beside the boxes
const PADDING = { side: 14, top: 34, bottom: 14 };
const PORT = { width: 6, height: 6 };
const MOST_PORTS = 24; // values through one border of a group, beyond which they share a port

/** Positions by the shape of the problem. @type {Map<string, object>} */
const seen = new Map();

/** Lay out a group and the open groups in it: sets width, height, x and y (in the parent) and `routes` of each. */
export function layout(group) {
  if (!group.dirty) return;
  for (const child of group.children) {
    if (child.open && child.children.length) layout(child);
    else Object.assign(child, boxSize(child), { dirty: true });
  }
  place(group);
  group.dirty = false;
}

/** A group was opened or closed: it and those around it have to be laid out again. */
export function touch(box) {
  for (let at = box; at; at = at.parent) at.dirty = true;
}

function place(group) {
  const { units, edges } = problem(group);
  const stacks = stack(units, edges);
  const key = JSON.stringify([stacks.list.map((one) => [one.width, one.height, one.top, one.bottom]), stacks.edges]);
  if (!seen.has(key)) seen.set(key, solve(stacks));
  apply(group, stacks, edges, seen.get(key));
}

/** What is to be placed: children and ports by their keys, and the edges between them. */
function problem(group) {
  const units = new Map(group.children.map((child) => [String(child.id), { box: child, width: child.width, height: child.height }]));
  const ports = { i: new Set(), o: new Set() };
  for (const { from, to } of group.links.values()) {
    if (typeof from === "string") ports.i.add(from);
    if (typeof to === "string") ports.o.add(to);
  }
  const shared = (port) => (typeof port === "string" && ports[port[0]].size > MOST_PORTS ? `${port[0]}*` : String(port));
  const edges = new Map();
  for (const { from, to, values } of group.links.values()) {
    const ends = [shared(from), shared(to)];
    for (const end of ends) if (!units.has(end)) units.set(end, { port: end[0], ...PORT });
    const key = ends.join(">");
    if (!edges.has(key)) edges.set(key, { from: ends[0], to: ends[1], values: [] });
    edges.get(key).values.push(...values);
  }
  return { units, edges: [...edges.values()] };
}

/** Runs of boxes where each is the only one after the one before it, and that one the only one before it. */
function stack(units, edges) {
  const after = new Map([...units.keys()].map((key) => [key, []]));
  const before = new Map([...units.keys()].map((key) => [key, []]));
  for (const { from, to } of edges) {
    after.get(from).push(to);
    before.get(to).push(from);
  }
  const follows = (key) => before.get(key).length === 1 && after.get(before.get(key)[0]).length === 1;
  const list = [];
  const home = new Map();
  const start = (first) => {
    const keys = [];
    for (let key = first; key !== undefined && !home.has(key); key = after.get(key).length === 1 && follows(after.get(key)[0]) ? after.get(key)[0] : undefined) {
      home.set(key, list.length);
      keys.push(key);
    }
    const parts = keys.map((key) => units.get(key));
    list.push({
      keys, parts,
      width: Math.max(...parts.map((part) => part.width)),
      height: parts.reduce((all, part) => all + part.height, GAP * (parts.length - 1)),
      top: parts[0].port === "i", bottom: parts.at(-1).port === "o",
    });
  };
  for (const key of units.keys()) if (!follows(key)) start(key);
  for (const key of units.keys()) if (!home.has(key)) start(key); // circles have no start: begin anywhere
  const between = edges.map(({ from, to }) => [home.get(from), home.get(to)]).filter(([from, to]) => from !== to);
  return { list, home, edges: between };
}

/** dagre's part: centres of the stacks and the bends of the edges between them. */
function solve({ list, edges }) {
  if (list.length === 1) return { x: [list[0].width / 2], y: [list[0].height / 2], bends: new Map() };
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ nodesep: 22, edgesep: 14, ranksep: RANKS, ranker: "network-simplex" });
  list.forEach(({ width, height }, i) => graph.setNode(String(i), { width, height }));
  const { kept, aside } = thin(list.length, edges);
  const shared = trunks(list.length, kept);
  for (let i = 0; i < shared.junctions; i += 1) graph.setNode(String(list.length + i), { width: 1, height: 1 });
  for (const [from, to] of shared.edges) graph.setEdge(String(from), String(to), { weight: 1 });
  // Ports belong on the border: one point above them all and one below keep them in the first and in the last rank.
  const pin = (side, edge) => {
    const pinned = list.flatMap((one, i) => (one[side] ? [String(i)] : []));
    if (!pinned.length || pinned.length === list.length) return;
    graph.setNode(side, { width: 0, height: 0 });
    for (const i of pinned) graph.setEdge(...edge(i), { weight: 50 });
  };
  pin("top", (i) => ["top", i]);
  pin("bottom", (i) => [i, "bottom"]);
  dagre.layout(graph);
  const at = list.map((_, i) => graph.node(String(i)));
  // dagre bends an edge in every rank that it passes and in every gap between two, beginning with a gap
  const inside = (from, to) => graph.edge(String(from), String(to)).points.slice(1, -1).map(({ x, y }, i) => ({ x, y, gap: i % 2 === 0 }));
  const along = ([from, to], i) => [...(i ? [corner(graph.node(String(from)))] : []), ...inside(from, to)];
  const bends = new Map([...shared.paths].map(([key, path]) => [key, path.flatMap(along)]));
  lanes(list, at, aside, bends);
  return { x: at.map((node) => node.x), y: at.map((node) => node.y), bends };
}

/** Edges that dagre was spared run down beside all boxes, one lane for each box that they come from. */
function lanes(list, at, aside, bends) {
  const right = list.reduce((most, one, i) => Math.max(most, at[i].x + one.width / 2), 0);
  const lane = new Map();
  for (const [from, to] of aside) {
    if (!lane.has(from)) lane.set(from, right + LANE * (lane.size + 2));
    const x = lane.get(from);
    const [start, end] = [at[from].y + list[from].height / 2 + GAP / 2, at[to].y - list[to].height / 2 - GAP / 2];
    bends.set(`${from}>${to}`, [{ x, y: start, gap: true }, { x, y: end, gap: true }]);
  }
}

const corner = ({ x, y }) => ({ x, y });

/** Positions in the group, its size, and the routes of its edges. */
function apply(group, stacks, edges, { x, y, bends }) {
  const unit = new Map();
  stacks.list.forEach((one, i) => {
    let top = y[i] - one.height / 2;
    one.keys.forEach((key, j) => {
      const part = one.parts[j];
      unit.set(key, { ...part, x: x[i] - part.width / 2, y: top });
      top += part.height + GAP;
    });
  });
  const all = [...unit.values()];
  const points = [...bends.values()].flat();
  const boxes = all.filter((one) => one.box);
  const low = (list, of, start) => list.reduce((found, one) => Math.min(found, of(one)), start);
  const high = (list, of, start) => list.reduce((found, one) => Math.max(found, of(one)), start);
  const left = low(points, (p) => p.x, low(all, (one) => one.x, Infinity)) - PADDING.side;
  const right = high(points, (p) => p.x, high(all, (one) => one.x + one.width, -Infinity)) + PADDING.side;
  const hasIn = all.some((one) => one.port === "i");
  const hasOut = all.some((one) => one.port === "o");
  const top = low(boxes, (one) => one.y, Infinity) - PADDING.top - (hasIn ? 20 : 0);
  const bottom = high(boxes, (one) => one.y + one.height, -Infinity) + PADDING.bottom + (hasOut ? 10 : 0);
  const title = boxSize(group).width + 30;
  const spare = Math.max(0, title - (right - left)) / 2;
  const shift = ({ x, y, gap }) => ({ x: x - left + spare, y: y - top, gap });
  for (const one of boxes) Object.assign(one.box, { x: shift(one).x, y: shift(one).y });
  group.width = Math.max(right - left, title);
  group.height = bottom - top;
  group.ports = new Map();
  for (const [key, one] of unit) if (one.port) group.ports.set(key, shift({ x: one.x + one.width / 2, y: one.y }).x);
  group.routes = edges.flatMap((edge) => routes(group, edge, unit, shift, bends.get(`${stacks.home.get(edge.from)}>${stacks.home.get(edge.to)}`) ?? []));
}

/** The lines of one edge: one in all, or several where its ends are open groups and its values enter at several ports. */
function routes(group, edge, unit, shift, bends) {
  const [from, to] = [unit.get(edge.from), unit.get(edge.to)];
  const turn = ({ x, y, gap }) => ({ x, gap, y: Math.min(Math.max(y, from.port ? PADDING.top + 4 : -Infinity), to.port ? group.height - 14 : Infinity) });
  const middle = bends.map(shift).map(turn); // ports are moved to the border: leave edges room to turn there
  const lines = new Map();
  for (const value of edge.values) {
    const start = from.port ? { x: group.ports.get(edge.from), y: group.ports.get(edge.from) > boxSize(group).width ? 0 : PADDING.top - 8 } : { x: from.box.x + portX(from.box, `o${value}`), y: from.box.y + from.box.height };
    const end = to.port ? { x: group.ports.get(edge.to), y: group.height } : { x: to.box.x + portX(to.box, `i${value}`), y: to.box.y };
    const key = `${start.x},${end.x}`;
    if (!lines.has(key)) lines.set(key, { points: straight([start, ...middle, end]), values: [], arrow: !to.port });
    lines.get(key).values.push(value);
  }
  return [...lines.values()];
}

/** In a rank with something tall in it, an edge goes straight down to where the rank ends, and turns between ranks. */
function straight(points) {
  const far = 1.2 * RANKS;
  const beside = (point, other) => Math.abs(other.y - point.y) > far && Math.abs(other.x - point.x) > 1;
  return points.flatMap((point, i) => {
    if (!point.gap) return [point];
    const [before, after] = [points[i - 1], points[i + 1]];
    const head = beside(point, before) ? [{ x: before.x, y: point.y - RANKS / 2 }] : [];
    const tail = beside(point, after) ? [{ x: after.x, y: point.y + RANKS / 2 }] : [];
    return [...head, point, ...tail];
  });
}

/** Where on the border of a box a value passes. */
function portX(box, port) {
  if (box.open && box.ports) return box.ports.get(port) ?? box.ports.get(`${port[0]}*`) ?? box.width / 2;
  return box.width / 2;
}

/** A smooth line down through points. */
export function curve(points) {
  let path = `M${round(points[0].x)} ${round(points[0].y)}`;
  for (let i = 1; i < points.length; i += 1) {
    const [a, b] = [points[i - 1], points[i]];
    const half = round((a.y + b.y) / 2);
    path += Math.abs(a.x - b.x) < 0.5 ? `V${round(b.y)}` : `C${round(a.x)} ${half} ${round(b.x)} ${half} ${round(b.x)} ${round(b.y)}`;
  }
  return path;
}

const round = (number) => Math.round(number * 10) / 10;
