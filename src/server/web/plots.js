// Small plots of the last minutes: a line with its latest value in words.

import {el, svg} from "./dom.js";

const POINTS = 60, WIDTH = 120, HEIGHT = 28;

export class Plot {
  // show(value): in words. most: the value at the top; without one, the greatest so far.
  constructor(label, show, most = 0) {
    Object.assign(this, {label, show, most});
    this.values = [];
    this.line = svg("polyline", {class: "line"});
    this.area = svg("polygon", {class: "area"});
    this.value = el("span.plot-value", {}, "–");
    const drawing = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot-lines", "aria-hidden": "true",
      preserveAspectRatio: "none"}, this.area, this.line);
    this.element = el("div.plot", {}, el("span.plot-label", {}, label), drawing, this.value);
  }

  // null: nothing was measured; the line goes on where it was.
  add(value) {
    const known = value !== null && Number.isFinite(value);
    if (known) this.value.textContent = this.show(value);
    if (!known && !this.values.length) return;
    this.values.push(known ? value : this.values[this.values.length - 1] ?? 0);
    if (this.values.length > POINTS) this.values.shift();
    this.draw();
  }

  draw() {
    const top = this.most || Math.max(1e-9, ...this.values) * 1.1;
    const step = WIDTH / (POINTS - 1);
    const begin = WIDTH - (this.values.length - 1) * step;
    const points = this.values.map((value, at) =>
      `${(begin + at * step).toFixed(1)},${(HEIGHT - 2 - Math.min(1, value / top) * (HEIGHT - 4)).toFixed(1)}`);
    this.line.setAttribute("points", points.join(" "));
    this.area.setAttribute("points", `${begin.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`);
  }
}
