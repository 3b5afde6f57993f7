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

/** The two lines of a box: a large and a small text, and a small one below. */
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
  box.texts = { large, small, below };
  return box.texts;
}

/** Its size while closed. */
export function boxSize(box) {
  const { large, small, below } = boxText(box);
  const first = textWidth(large, FONT) + (small ? 7 + textWidth(small, SMALL) : 0);
  const sign = box.children.length ? 14 : 0; // the sign that opens it
  return { width: Math.max(64, first, textWidth(below, SMALL)) + sign + 20, height: below ? 40 : 28 };
}
