/** Building elements. Text is only ever set as text, never parsed: a name from the model cannot become markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Element} element
 * @param {Record<string, any> | null} attributes null and false leave one out, a function becomes a listener
 * @param {any[]} children elements, strings, nested lists; null is skipped
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** An HTML element. @returns {HTMLElement} */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. @returns {SVGElement} */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A table; rows are lists of cells (text or element), `numeric` the columns to set to the right. */
export function table(headings, rows, numeric = []) {
  const align = (i) => (numeric.includes(i) ? "number" : null);
  return h("div", { class: "wide" },
    h("table", null,
      h("thead", null, h("tr", null, headings.map((text, i) => h("th", { class: align(i), scope: "col" }, text)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, i) => h("td", { class: align(i) }, cell)))))));
}
