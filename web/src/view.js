/** The window onto the drawing: pan, zoom, fit, and the small map. */

import { place } from "./draw.js";

const LEAST = 0.02;
const MOST = 4;
const READABLE = 0.55; // a drawing that fits at this scale or more is shown whole at first

export class View {
  /** @param {SVGSVGElement} svg @param {SVGElement} layer @param {import("./model.js").Model} model @param {HTMLCanvasElement} map */
  constructor(svg, layer, model, map) {
    Object.assign(this, { svg, layer, model, map, x: 0, y: 0, scale: 1, pointers: new Map(), moved: false });
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    const jump = (event) => event.buttons && this.mapJump(event);
    map.addEventListener("pointerdown", jump);
    map.addEventListener("pointermove", jump);
    new ResizeObserver(() => this.show()).observe(svg);
  }

  get size() {
    const { clientWidth, clientHeight } = this.svg;
    return { width: clientWidth || 800, height: clientHeight || 600 };
  }

  show() {
    this.layer.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
    this.svg.classList.toggle("far", this.scale < 0.3);
    this.drawMap();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.show();
  }

  /** Zoom by a factor and keep the point (in pixels of the window) where it is. */
  zoom(factor, point = { x: this.size.width / 2, y: this.size.height / 2 }) {
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = point.x - ((point.x - this.x) * scale) / this.scale;
    this.y = point.y - ((point.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.show();
  }

  /** The whole drawing. */
  fit() {
    const { root } = this.model;
    const { width, height } = this.size;
    this.scale = Math.min(1.2, Math.max(LEAST, Math.min(width / root.width, height / root.height) * 0.96));
    this.x = (width - root.width * this.scale) / 2;
    this.y = (height - root.height * this.scale) / 2;
    this.show();
  }

  /** The whole if it can be read so, otherwise its beginning. */
  begin() {
    this.fit();
    if (this.scale >= READABLE) return;
    const { root } = this.model;
    const { width } = this.size;
    this.scale = Math.min(1, Math.max(READABLE, (width / root.width) * 0.96));
    const first = root.children.length ? place(root.children[0]) : { x: 0, width: root.width };
    const middle = root.width * this.scale <= width ? root.width / 2 : first.x + first.width / 2;
    this.x = width / 2 - middle * this.scale;
    this.y = 8;
    this.show();
  }

  /** Bring a box into the middle, large enough to read. */
  center(box) {
    const { x, y, width, height } = place(box);
    const size = this.size;
    if (this.scale < READABLE) this.scale = 0.9;
    this.x = size.width / 2 - (x + width / 2) * this.scale;
    this.y = size.height / 2 - (y + Math.min(height / 2, size.height / 2 / this.scale - 40)) * this.scale;
    this.show();
  }

  /** Move only if the box is not in the window. */
  reveal(box) {
    const { x, y, width } = place(box);
    const [left, top] = [x * this.scale + this.x, y * this.scale + this.y];
    const size = this.size;
    if (this.scale < READABLE || left < 0 || top < 0 || left + Math.min(width * this.scale, size.width) > size.width || top + 50 > size.height) this.center(box);
  }

  /** Do something that moves boxes, and keep the corner of one where it was. */
  holding(box, change) {
    const before = place(box);
    change();
    const after = place(box);
    this.x += (before.x - after.x) * this.scale;
    this.y += (before.y - after.y) * this.scale;
    this.show();
  }

  point(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) this.pan(-event.deltaX * unit, -event.deltaY * unit);
    else this.zoom(Math.exp((-event.deltaY * unit * (event.ctrlKey ? 4 : 1)) / 500), this.point(event));
  }

  down(event) {
    this.pointers.set(event.pointerId, this.point(event));
    this.moved = false;
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    if (event.pointerType === "mouse" && !event.buttons) {
      this.pointers.delete(event.pointerId);
      return;
    }
    const now = this.point(event);
    if (!this.moved && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
    if (!this.moved) this.svg.setPointerCapture(event.pointerId);
    this.moved = true; // the click that follows is the end of a drag
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const apart = (p) => Math.max(1, Math.hypot(p.x - other.x, p.y - other.y));
      this.zoom(apart(now) / apart(before), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    } else {
      this.pan(now.x - before.x, now.y - before.y);
    }
    this.pointers.set(event.pointerId, now);
  }

  mapScale() {
    const { map, model: { root } } = this;
    return Math.min(map.width / root.width, map.height / root.height);
  }

  mapJump(event) {
    const { left, top } = this.map.getBoundingClientRect();
    const shrunk = this.map.width / this.map.clientWidth; // on a narrow screen the map is smaller than its drawing
    const [scale, size] = [this.mapScale(), this.size];
    const offset = (this.map.width - this.model.root.width * scale) / 2;
    this.x = size.width / 2 - (((event.clientX - left) * shrunk - offset) / scale) * this.scale;
    this.y = size.height / 2 - (((event.clientY - top) * shrunk) / scale) * this.scale;
    this.show();
  }

  drawMap() {
    const { map, model } = this;
    const pen = map.getContext("2d");
    const style = getComputedStyle(map);
    const scale = this.mapScale();
    const offset = (map.width - model.root.width * scale) / 2;
    const size = this.size;
    const { width, height } = model.root;
    const whole = this.x >= 0 && this.y >= 0 && this.x + width * this.scale <= size.width && this.y + height * this.scale <= size.height;
    map.hidden = whole; // nothing to find that is not in view
    if (whole) return;
    pen.clearRect(0, 0, map.width, map.height);
    pen.fillStyle = style.color;
    const paint = (group, x, y) => {
      for (const child of group.children) {
        const [cx, cy] = [x + child.x, y + child.y];
        if (child.open && child.children.length) paint(child, cx, cy);
        else pen.fillRect(offset + cx * scale, cy * scale, Math.max(1, child.width * scale), Math.max(0.6, child.height * scale));
      }
    };
    paint(model.root, 0, 0);
    pen.strokeStyle = style.borderTopColor;
    pen.lineWidth = 2;
    pen.strokeRect(offset - (this.x / this.scale) * scale, (-this.y / this.scale) * scale, (size.width / this.scale) * scale, Math.max(3, (size.height / this.scale) * scale));
  }
}
