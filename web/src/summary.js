/** The tables beside the graph: modules, slowest nodes, largest weights. */

import { h, table } from "./dom.js";
import { bytes, count, error, shape, time, whole } from "./format.js";

const MOST_ROWS = 100;

const COLUMNS = [
  { title: "nodes", of: (sums) => sums.nodes, write: whole },
  { title: "parameters", of: (sums) => sums.parameters, write: (value) => (value ? count(value) : "") },
  { title: "FLOPs", of: (sums) => sums.flops, write: count },
  { title: "memory traffic", of: (sums) => sums.memory, write: bytes },
  { title: "time", of: (sums) => sums.microseconds, write: time },
  { title: "largest error", of: (sums) => sums.error, write: (value) => error(Number.isFinite(value) || value === null ? value : "not finite") },
];

/** The modules as a tree of rows; a heading sorts the children of each. */
export function modules(model, go) {
  const columns = COLUMNS.filter(({ of, title }) => of(model.root.sums) !== null && (title !== "parameters" || model.root.sums.parameters));
  const opened = new Set([model.root]);
  let sorted = null;
  const head = h("tr");
  const body = h("tbody");

  const rows = (group, depth) => {
    const children = group.children.filter((child) => child.kind !== "input" && child.kind !== "output" && child.sums.nodes);
    if (sorted) children.sort((a, b) => (sorted.of(b.sums) ?? -1) - (sorted.of(a.sums) ?? -1));
    return children.flatMap((child) => [row(child, depth), ...(opened.has(child) ? rows(child, depth + 1) : [])]);
  };
  const row = (box, depth) => {
    const holds = box.children.length > 0;
    const turn = () => {
      if (!opened.delete(box)) opened.add(box);
      fill();
      body.querySelector(`[data-row="${box.id}"] .turn`)?.focus();
    };
    const button = holds ? h("button", { class: "turn", type: "button", "aria-expanded": String(opened.has(box)), "aria-label": `children of ${box.label}`, click: turn }, opened.has(box) ? "▾" : "▸") : h("span", { class: "turn" });
    const name = h("button", { class: "link", type: "button", title: "show in the graph", click: () => go(box) }, box.kind === "node" ? box.note || box.node.op : box.label);
    const kind = box.kind === "node" ? (box.note ? box.node.op : "") : box.note;
    return h("tr", { "data-row": box.id },
      h("td", { class: "module", style: `--depth: ${depth}` }, button, name, " ", h("span", { class: "dim wideonly" }, kind)),
      columns.map(({ of, write }) => h("td", { class: "number" }, write(of(box.sums)) ?? "")));
  };
  const fill = () => {
    head.replaceChildren(h("th", { scope: "col" }, "module"), ...columns.map((column) => h("th", { class: "number", scope: "col", "aria-sort": sorted === column ? "descending" : "none" },
      h("button", { type: "button", click: () => { sorted = sorted === column ? null : column; fill(); } }, column.title, sorted === column ? " ▾" : ""))));
    body.replaceChildren(...rows(model.root, 0));
  };
  fill();
  return h("div", { class: "wide" }, h("table", { class: "modules" }, h("thead", null, head), body));
}

/** The nodes that took longest, or null when nothing was timed. What is inside of a timed node is a part of its time. */
export function slowest(model, go) {
  const total = model.root.sums.microseconds;
  if (!total) return null;
  const timed = model.boxes.filter((box) => box.node && box.node.microseconds !== null).sort((a, b) => b.node.microseconds - a.node.microseconds);
  const shown = timed.slice(0, MOST_ROWS);
  const { profiled_at: at, inserted_microseconds: added } = model.data.totals;
  const rows = shown.map((box) => {
    const { node } = box;
    const outer = around(box);
    const share = `${((node.microseconds / total) * 100).toFixed(1)}%`;
    const name = link(box, node.name, go);
    return [outer ? [name, h("span", { class: "dim" }, " inside ", link(outer, `${outer.node.op} ${outer.node.name}`, go))] : name, node.op, time(node.microseconds), outer ? h("span", { class: "dim" }, `(${share})`) : share, node.microseconds / timed[0].node.microseconds];
  });
  return h("div", null, at ? h("p", { class: "dim" }, `Measured in onnxruntime: ${at}.`) : null,
    h("p", { class: "dim" }, `Shares are of the ${time(total)} in nodes of the file${added ? `, without ${time(added)} in nodes that onnxruntime adds by itself` : ""}${shown.some(around) ? "; those in parentheses are inside of another node, and part of its time already" : ""}.`),
    bars(["node", "operator", "time", "share", ""], rows),
    timed.length > MOST_ROWS ? h("p", { class: "dim" }, `The slowest ${MOST_ROWS} of ${whole(timed.length)}.`) : null);
}

/** The node whose body, or whose function, a box is in. */
function around(box) {
  for (let at = box.parent; at; at = at.parent) if (at.node) return at;
  return null;
}

/** The weights by their size. */
export function weights(model, go) {
  const stored = model.values.map((value, v) => ({ value, v })).filter(({ value }) => value.kind === "weight" && value.bytes).sort((a, b) => b.value.bytes - a.value.bytes);
  if (!stored.length) return null;
  const rows = stored.slice(0, MOST_ROWS).map(({ value, v }) => [
    model.consumers[v].length ? link(model.consumers[v][0], value.name, go) : value.name, `${value.type} ${shape(value.shape)}`, bytes(value.bytes),
    `${((value.bytes / (model.data.files.bytes_of_weights || value.bytes)) * 100).toFixed(1)}%`, value.bytes / stored[0].value.bytes]);
  return h("div", null, bars(["weight", "type", "size", "share", ""], rows), stored.length > MOST_ROWS ? h("p", { class: "dim" }, `The largest ${MOST_ROWS} of ${whole(stored.length)}.`) : null);
}

const link = (box, text, go) => h("button", { class: "link", type: "button", title: "show in the graph", click: () => go(box) }, text);

/** A table whose last cell is a fraction, drawn as a bar. */
function bars(headings, rows) {
  return table(headings, rows.map((row) => [...row.slice(0, -1), h("div", { class: "bar", style: `width: ${(row.at(-1) * 100).toFixed(1)}%` })]), [2, 3]);
}
