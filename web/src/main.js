/** The page: tabs, theme, help, and the keys that work everywhere. */

import { h } from "./dom.js";
import { Graph } from "./graph.js";
import { group } from "./groups.js";
import { Model } from "./model.js";
import { useValues } from "./sizes.js";
import { modules, slowest, weights } from "./summary.js";

const KEYS = [
  ["/", "search"], ["↑ ↓", "along an edge, to what feeds a node or what it feeds"], ["← →", "to the node beside it"], ["Tab", "to the next box"],
  ["Enter", "details; on a group again: open or close"], ["+ − 0", "zoom in, zoom out, show all"], ["w a s d", "move the drawing"], ["Escape", "close details, search or help"], ["?", "this help"],
];

const data = JSON.parse(document.getElementById("model").textContent);
const model = new Model(data);
group(model);
useValues(data.values);

const main = document.querySelector("main");
const bar = h("nav", { class: "tabs", role: "tablist", "aria-label": "sections" });
const graph = new Graph(model, show);

/** Add a section that only exists with scripts. */
function add(id, title, content, before = null) {
  if (content) main.insertBefore(h("section", { class: "tab", id, "data-title": title }, h("h2", { class: "title" }, title), content), before);
}

function show(id) {
  for (const section of main.querySelectorAll("section.tab")) section.hidden = section.id !== id;
  for (const button of bar.children) {
    const chosen = button.dataset.tab === id;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    if (chosen) button.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  document.body.classList.toggle("drawn", id === "graph");
}

function tabs() {
  for (const section of main.querySelectorAll("section.tab")) {
    section.setAttribute("role", "tabpanel");
    section.setAttribute("aria-label", section.dataset.title);
    bar.append(h("button", { type: "button", role: "tab", "data-tab": section.id, "aria-controls": section.id, click: () => show(section.id) }, section.dataset.title));
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...bar.children];
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus();
    next.click();
  });
  main.before(bar);
}

/** Dark or light: as the system has it, until the button says otherwise. */
function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const now = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const turn = () => {
    document.documentElement.dataset.theme = now() === "dark" ? "light" : "dark";
    graph.view.show();
  };
  dark.addEventListener("change", () => graph.view.show());
  return h("button", { type: "button", class: "theme", title: "dark or light", "aria-label": "dark or light", click: turn }, "◐");
}

/** On paper: light, and the whole drawing. */
function printing() {
  const { dataset } = document.documentElement;
  let before;
  addEventListener("beforeprint", () => {
    const { x, y, scale } = graph.view;
    before = { theme: dataset.theme, view: { x, y, scale } };
    dataset.theme = "light";
    graph.view.fit();
  });
  addEventListener("afterprint", () => {
    if (before.theme) dataset.theme = before.theme;
    else delete dataset.theme;
    Object.assign(graph.view, before.view);
    graph.view.show();
  });
}

const help = h("dialog", { class: "help", "aria-label": "keys" }, h("h2", null, "Keys"),
  h("dl", null, KEYS.map(([key, text]) => [h("dt", null, key.split(" ").map((one) => [h("kbd", null, one), " "])), h("dd", null, text)])),
  h("p", { class: "dim" }, "Drag to move, wheel or pinch to zoom, click for details, double-click a group to open or close it."),
  h("form", { method: "dialog" }, h("button", null, "close")));

function keys(event) {
  const typing = event.target.matches?.("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey || typing || help.open) return;
  const drawn = !document.getElementById("graph").hidden;
  const moves = { w: [0, 80], s: [0, -80], a: [80, 0], d: [-80, 0] };
  if (event.key === "/") {
    show("graph");
    graph.input.focus();
    graph.input.select();
  } else if (event.key === "?") help.showModal();
  else if (!drawn) return;
  else if (event.key === "+" || event.key === "=") graph.view.zoom(1.3);
  else if (event.key === "-") graph.view.zoom(1 / 1.3);
  else if (event.key === "0") graph.view.fit();
  else if (event.key === "Escape") graph.select(null);
  else if (event.key in moves) graph.view.pan(...moves[event.key]);
  else if (["ArrowDown", "ArrowUp"].includes(event.key) && (event.target === document.body || event.target === graph.svg)) graph.walk(model.shown(graph.selected?.kind ? graph.selected : model.root.children[0]), null);
  else return;
  event.preventDefault();
}

document.documentElement.classList.add("scripted");
add("graph", "Graph", graph.element, main.firstElementChild);
const after = document.getElementById("operators")?.nextElementSibling ?? null;
const go = (box) => graph.go(box);
add("modules", "Modules", modules(model, go), after);
add("time", "Time", slowest(model, go), after);
add("weights", "Weights", weights(model, go), after);
tabs();
document.querySelector("#top").append(h("span", { class: "buttons" }, h("button", { type: "button", title: "keys (?)", "aria-label": "keys", click: () => help.showModal() }, "?"), theme()));
document.body.append(help);
document.addEventListener("keydown", keys);
printing();
main.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-node]"); // static tables name nodes by their position
  if (!link) return;
  const box = model.boxes.find((one) => one.node === data.nodes[Number(link.dataset.node)]);
  if (box) go(box);
});
show("graph");
graph.start();
