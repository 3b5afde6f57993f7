/** What is written in a box, and how large that makes it. */

import { clipped, count, plural, shape } from "./format.js";
import { inner } from "./model.js";

const FONT = "600 13px system-ui, sans-serif";
const SMALL = "11px system-ui, sans-serif";
const widths = new Map();
let pen = null;

function textWidth(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    pen ??= document.createElement("canvas").getContext("2d");
    pen.font = font;
    widths.set(key, Math.ceil(pen.measureText(text).width));
  }
  return widths.get(key);
}

let values = [];
/** The shapes of results are written into boxes: say once where they are found. */
export function useValues(list) {
  values = list;
}

/** The lines of a box: a large and a small text, the shape of its result below, and its weights below that. */
export function boxText(box) {
  if (box.texts) return box.texts;
  const large = clipped(box.label, box.kind === "node" ? 24 : 30);
  const small = clipped(box.note, 22);
  let below = "";
  if (box.kind === "group") {
    const { nodes, parameters } = box.sums;
    below = nodes ? plural(nodes, "node") + (parameters ? ` · ${count(parameters)} params` : "") : plural([...inner(box)].length, "value");
  } else {
    const value = values[(box.kind === "output" ? box.reads : box.gives)[0]];
    if (value) below = clipped(box.kind === "node" ? shape(value.shape) : `${value.type} ${shape(value.shape)}`, 30);
  }
  box.texts = { large, small, below, held: box.kind === "node" ? held(box) : "" };
  return box.texts;
}

/** The weights of a node in a few words: small ones as they are, others by their shapes. */
function held(box) {
  const stored = box.node.in.filter((v) => v !== null && values[v].kind === "weight").map((v) => values[v]);
  const texts = stored.map((value) => (value.preview && value.preview.length <= 12 ? value.preview : shape(value.shape)));
  return texts.length ? clipped(`with ${texts.join(", ")}`, 30) : "";
}

/** Its size while closed. */
export function boxSize(box) {
  const { large, small, below, held: weights } = boxText(box);
  const first = textWidth(large, FONT) + (small ? 7 + textWidth(small, SMALL) : 0);
  const sign = box.children.length ? 14 : 0; // the sign that opens it
  return { width: Math.max(64, first, textWidth(below, SMALL), textWidth(weights, SMALL)) + sign + 20, height: 28 + (below ? 12 : 0) + (weights ? 14 : 0) };
}
