// A heat map of any size on a canvas: tiles of 8-bit levels, fetched as they become visible; zoom and pan.

import { named, paint, palette } from "./colours.js";
import { make } from "./dom.js";
import { columnGap } from "./drawing.js";
import { widthOf } from "./svg.js";
import { shortened } from "./words.js";

const tileCells = 256;
const mostTiles = 80;
const labelSize = 11;
const rowGap = 12;
const largestCell = 44;

/**
 * A map of rows × columns. `fetchTile(zoom, x, y)` gives levels; `hover(row, column)` receives the cell under the pointer and
 * `pick(row, column)` where it was clicked.
 */
export class TiledMap {
  constructor({ rows, columns, fetchTile, hover, pick, describe }) {
    Object.assign(this, { rows, columns, fetchTile, hover, pick });
    this.canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": describe });
    this.root = make("div", { class: "map" }, this.canvas);
    this.tiles = new Map();
    this.pointers = new Map();
    this.mark = { row: -1, column: -1 };
    this.table = palette();
    const widest = (axis) => Math.min(120, Math.max(10, ...axis.slice(0, 4000).map((entry) => widthOf(shortened(entry.label), labelSize))));
    this.left = widest(rows) + 8;
    this.top = widest(columns) * 0.75 + 10;
    // The label of the last column is slanted beyond it.
    this.right = widest(columns.slice(-1)) * 0.72;
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.root);
    this.listen();
  }

  /** Fits the canvas to the page; zoom and offset stay, unless the whole map was shown. */
  resize() {
    const width = this.root.clientWidth;
    if (width < 40) return;
    const square = (width - this.left - this.right) * Math.min(1.2, Math.max(0.3, this.rows.length / this.columns.length));
    const most = Math.min(Math.max(square, 160), Math.max(360, window.innerHeight - 200), this.rows.length * largestCell);
    const height = most + this.top;
    const ratio = window.devicePixelRatio || 1;
    const first = !this.width;
    [this.width, this.height] = [width, height];
    [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    this.canvas.style.height = `${height}px`;
    if (first || this.fitted) this.fit();
    this.draw();
  }

  /** The largest width that the map can use. */
  widest() {
    return this.left + this.columns.length * largestCell + this.right;
  }

  fitting() {
    const [wide, high] = [this.width - this.left - this.right, this.height - this.top];
    return Math.min(wide / this.columns.length, high / this.rows.length, largestCell);
  }

  /** Shows the whole map. */
  fit() {
    this.unit = this.fitting();
    this.fitted = true;
    this.x = this.y = 0;
    this.draw();
  }

  /** Zooms about a point of the canvas: by default about the marked cell, or where that row meets the diagonal. */
  zoom(factor, at = this.middle()) {
    const unit = Math.min(60, Math.max(this.fitting(), this.unit * factor));
    const [px, py] = [at[0] - this.left, at[1] - this.top];
    this.x += px / this.unit - px / unit;
    this.y += py / this.unit - py / unit;
    this.unit = unit;
    this.fitted = unit <= this.fitting() * 1.001;
    this.draw();
  }

  middle() {
    const { row, column } = this.mark;
    if (row < 0) return [this.width / 2, this.height / 2];
    const diagonal = Math.round(((row + 0.5) * this.columns.length) / this.rows.length - 0.5);
    const inside = (value, least, most) => Math.min(most, Math.max(least, value));
    return [
      inside(this.left + ((column >= 0 ? column : diagonal) + 0.5 - this.x) * this.unit, this.left, this.width),
      inside(this.top + (row + 0.5 - this.y) * this.unit, this.top, this.height)];
  }

  /** Pans by so many cells. */
  move(columns, rows) {
    this.x += columns;
    this.y += rows;
    this.draw();
  }

  /** Scrolls to a cell and marks it. */
  show(row, column) {
    const [wide, high] = [(this.width - this.left) / this.unit, (this.height - this.top) / this.unit];
    if (column < this.x) this.x = column;
    if (column + 1 > this.x + wide) this.x = column + 1 - wide;
    if (row < this.y) this.y = row;
    if (row + 1 > this.y + high) this.y = row + 1 - high;
    this.mark = { row, column };
    this.draw();
  }

  keepInside() {
    const most = (length, room) => Math.max(0, length - room / this.unit);
    this.x = Math.min(Math.max(0, this.x), most(this.columns.length, this.width - this.left));
    this.y = Math.min(Math.max(0, this.y), most(this.rows.length, this.height - this.top));
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.left) / this.unit + this.x);
    const row = Math.floor((event.clientY - box.top - this.top) / this.unit + this.y);
    const inside = event.clientX - box.left >= this.left && event.clientY - box.top >= this.top;
    return inside && row < this.rows.length && column < this.columns.length ? { row, column } : null;
  }

  listen() {
    const canvas = this.canvas;
    const position = (event) => [event.clientX, event.clientY];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, position(event));
      this.moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return this.point(this.cellAt(event));
      const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
      this.moved += Math.abs(dx) + Math.abs(dy);
      if (this.pointers.size === 2) this.pinch(event, before);
      else if (this.moved > 4) this.move(-dx / this.unit, -dy / this.unit);
      this.pointers.set(event.pointerId, position(event));
    });
    const up = (event) => {
      const cell = this.cellAt(event);
      if (this.pointers.delete(event.pointerId) && this.moved <= 4 && cell) this.pick(cell.row, cell.column);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.point(null));
    // Without Ctrl or Meta, the wheel scrolls the page.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 300), [event.clientX - box.left, event.clientY - box.top]);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  pinch(event, before) {
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
    const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
    const box = this.canvas.getBoundingClientRect();
    const middle = [(event.clientX + other[0]) / 2 - box.left, (event.clientY + other[1]) / 2 - box.top];
    // Two fingers also pan the map; one finger scrolls the page.
    this.move((before[0] - event.clientX) / 2 / this.unit, (before[1] - event.clientY) / 2 / this.unit);
    this.zoom(apart([event.clientX, event.clientY], other) / apart(before, other), middle);
  }

  key(event) {
    const { row, column } = this.mark;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (step) {
      const inside = (value, length) => Math.min(length - 1, Math.max(0, value));
      const [r, c] = [inside(row + step[0], this.rows.length), inside(column + step[1], this.columns.length)];
      this.show(r, c);
      this.pick(r, c);
    } else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-") this.zoom(1 / 1.5);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  point(cell) {
    this.over = cell;
    this.hover(cell);
    this.draw();
  }

  /** The tile at (x, y), cached or being fetched. */
  tile(zoom, x, y) {
    const key = `${zoom} ${x} ${y}`;
    if (!this.tiles.has(key)) {
      if (this.tiles.size >= mostTiles) this.tiles.delete(this.tiles.keys().next().value);
      const tile = { picture: null };
      this.tiles.set(key, tile);
      this.fetchTile(zoom, x, y).then(
        ({ levels, width, height }) => {
          tile.picture = paint(levels, width, height, this.table);
          [tile.width, tile.height] = [width, height];
          this.draw();
        },
        (problem) => {
          this.tiles.delete(key);
          // Try again if the server is busy, unless the view was closed.
          if (problem.name !== "AbortError" && this.root.isConnected) setTimeout(() => this.draw(), 700);
        },
      );
    }
    return this.tiles.get(key);
  }

  /** Schedules drawing for the next frame. */
  draw() {
    if (this.due || !this.width) return;
    this.due = requestAnimationFrame(() => {
      this.due = 0;
      this.drawNow();
    });
  }

  drawNow() {
    this.keepInside();
    const context = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.save();
    context.beginPath();
    context.rect(this.left, this.top, Math.min(this.width - this.left, this.columns.length * this.unit), Math.min(this.height - this.top, this.rows.length * this.unit));
    context.clip();
    context.fillStyle = named("s0") || named("paper");
    context.fillRect(this.left, this.top, this.width, this.height);
    this.drawTiles(context);
    this.drawMarks(context);
    context.restore();
    this.drawLabels(context);
  }

  drawTiles(context) {
    const zoom = Math.max(0, Math.floor(-Math.log2(this.unit)));
    const span = tileCells << zoom;
    const cell = 2 ** zoom * this.unit;
    context.imageSmoothingEnabled = this.unit < 1;
    let waiting = 0;
    const [right, bottom] = [this.x + (this.width - this.left) / this.unit, this.y + (this.height - this.top) / this.unit];
    for (let y = Math.floor(this.y / span); y * span < Math.min(bottom, this.rows.length); y++) {
      for (let x = Math.floor(this.x / span); x * span < Math.min(right, this.columns.length); x++) {
        const tile = this.tile(zoom, x, y);
        if (!tile.picture) {
          waiting += 1;
          continue;
        }
        const [px, py] = [this.left + (x * span - this.x) * this.unit, this.top + (y * span - this.y) * this.unit];
        context.drawImage(tile.picture, px, py, tile.width * cell, tile.height * cell);
      }
    }
    this.canvas.dataset.waiting = waiting;
  }

  drawMarks(context) {
    const { row, column } = this.over ?? this.mark;
    const along = (index, start) => start + index * this.unit;
    context.lineWidth = 1;
    context.strokeStyle = named("class-1");
    const size = Math.max(this.unit, 1.5);
    if (row >= 0) context.strokeRect(this.left, along(row - this.y, this.top), this.width, size);
    if (column >= 0) context.strokeRect(along(column - this.x, this.left), this.top, size, this.height);
    if (row >= 0 && column >= 0) {
      context.lineWidth = 2.5;
      context.strokeRect(along(column - this.x, this.left), along(row - this.y, this.top), size, size);
    }
  }

  drawLabels(context) {
    context.font = `${labelSize}px Inter, Helvetica, Arial, sans-serif`;
    context.textBaseline = "middle";
    const { row, column } = this.over ?? this.mark;
    const each = (axis, apart, from, to, chosen, write) => {
      const every = Math.max(1, Math.ceil(apart / this.unit));
      for (let i = Math.max(0, Math.floor(from)); i < Math.min(axis.length, to); i++) {
        if (i !== chosen && (i % every || (chosen >= 0 && Math.abs(i - chosen) < every))) continue;
        context.fillStyle = named(i === chosen ? "class-1" : axis[i].special ? "muted" : "ink");
        write(shortened(axis[i].label), i);
      }
    };
    context.textAlign = "right";
    each(this.rows, rowGap, this.y, this.y + (this.height - this.top) / this.unit, row, (text, i) => {
      const y = this.top + (i + 0.5 - this.y) * this.unit;
      if (y > this.top) context.fillText(text, this.left - 5, y, this.left - 6);
    });
    context.textAlign = "left";
    each(this.columns, columnGap, this.x, this.x + (this.width - this.left) / this.unit, column, (text, i) => {
      const x = this.left + (i + 0.5 - this.x) * this.unit;
      if (x < this.left) return;
      context.save();
      context.translate(x, this.top - 5);
      context.rotate(-Math.PI / 4);
      context.fillText(text, 0, 0);
      context.restore();
    });
  }

  /** Redraws after a change of colours. */
  repaint() {
    this.table = palette();
    this.tiles.clear();
    this.draw();
  }

  /** Releases the observer and the tiles. */
  close() {
    this.watch.disconnect();
    this.tiles.clear();
  }
}
