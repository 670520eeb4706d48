// Draw: a map of the plane, the backgrounds of the two problems, paths, ellipses and axes.

import { height } from "./landscape.mjs";
import { massLevels } from "./logistic.mjs";

export const COLOURS = { adam: "#7d8590", vadam: "#e0533d", corrected: "#c98a1b", vogn: "#3b82c4", exact: "#1a9850" };
const MARGIN = { left: 38, right: 8, top: 8, bottom: 26 };
const GRID = 120; // cells of the log-likelihood along each axis

// The map between the plane and the pixels of a canvas.
export class View {
  constructor({ x, y }, width, pixelHeight) {
    this.range = { x, y };
    this.left = MARGIN.left;
    this.top = MARGIN.top;
    this.width = width - MARGIN.left - MARGIN.right;
    this.height = pixelHeight - MARGIN.top - MARGIN.bottom;
    this.scale = [this.width / (x[1] - x[0]), this.height / (y[1] - y[0])];
  }

  pixel([x, y]) {
    return [this.left + (x - this.range.x[0]) * this.scale[0], this.top + (this.range.y[1] - y) * this.scale[1]];
  }

  point([px, py]) {
    return [this.range.x[0] + (px - this.left) / this.scale[0], this.range.y[1] - (py - this.top) / this.scale[1]];
  }

  // Return an image of the plane; alpha(point) says how much ink each pixel has, from 0 to 1.
  image(ink, alpha, columns, rows) {
    const canvas = new OffscreenCanvas(columns, rows);
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    for (let j = 0; j < rows; j++) {
      for (let i = 0; i < columns; i++) {
        const k = 4 * (j * columns + i);
        const pixel = [this.left + ((i + 0.5) / columns) * this.width, this.top + ((j + 0.5) / rows) * this.height];
        for (let c = 0; c < 3; c++) image.data[k + c] = ink[c];
        image.data[k + 3] = 255 * alpha(this.point(pixel));
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }
}

// Return an image of the landscape: the deeper, the darker.
export function landscapeBackground(view, ink) {
  return view.image(ink, (theta) => 0.42 * height(theta) ** 2, 360, 360);
}

// The log-likelihood on a grid, computed once; a prior is added for each picture.
export class PosteriorMap {
  constructor(model, { x, y }) {
    this.origin = [x[0], y[0]];
    this.cell = [(x[1] - x[0]) / GRID, (y[1] - y[0]) / GRID];
    this.values = new Float64Array((GRID + 1) ** 2);
    for (let j = 0; j <= GRID; j++) {
      for (let i = 0; i <= GRID; i++) this.values[j * (GRID + 1) + i] = model.logLikelihood(this.corner(i, j));
    }
  }

  corner(i, j) {
    return [this.origin[0] + i * this.cell[0], this.origin[1] + j * this.cell[1]];
  }

  // Return the log-densities above which 90, 50 and 10 % of the posterior lie.
  levels(lam) {
    const logDensities = this.values.map((value, k) => value + logPrior(this.corner(k % (GRID + 1), Math.floor(k / (GRID + 1))), lam));
    return massLevels(logDensities, [0.9, 0.5, 0.1]);
  }

  // Return the log-likelihood by bilinear interpolation.
  at([x, y]) {
    const u = Math.min(Math.max((x - this.origin[0]) / this.cell[0], 0), GRID - 1e-9);
    const v = Math.min(Math.max((y - this.origin[1]) / this.cell[1], 0), GRID - 1e-9);
    const k = Math.floor(v) * (GRID + 1) + Math.floor(u);
    const [a, b] = [u % 1, v % 1];
    const low = this.values[k] * (1 - a) + this.values[k + 1] * a;
    return low * (1 - b) + (this.values[k + GRID + 1] * (1 - a) + this.values[k + GRID + 2] * a) * b;
  }

  background(view, ink, lam) {
    const levels = this.levels(lam);
    const alpha = (theta) => {
      const logDensity = this.at(theta) + logPrior(theta, lam);
      let regions = 0;
      for (const level of levels) regions += logDensity >= level;
      return 0.12 * regions;
    };
    return view.image(ink, alpha, Math.round(view.width), Math.round(view.height));
  }
}

function logPrior([x, y], lam) {
  return -0.5 * lam * (x * x + y * y);
}

export function drawPath(context, view, means, until, colour, alpha) {
  context.beginPath();
  for (let t = 0; t <= until; t++) context.lineTo(...view.pixel(means[t]));
  Object.assign(context, { strokeStyle: colour, lineWidth: 1.25, globalAlpha: alpha, lineJoin: "round" });
  context.stroke();
  context.globalAlpha = 1;
}

// Draw the mean and the ellipse of one standard deviation.
export function drawGaussian(context, view, mean, precision, colour, { dashed = false } = {}) {
  const [x, y] = view.pixel(mean);
  Object.assign(context, { strokeStyle: colour, fillStyle: colour, lineWidth: 2.25 });
  if (precision) {
    const radii = precision.map((value, d) => Math.min(view.scale[d] / Math.sqrt(value), 1e4));
    context.beginPath();
    context.setLineDash(dashed ? [7, 4] : []);
    context.ellipse(x, y, ...radii, 0, 0, 2 * Math.PI);
    context.globalAlpha = 0.1;
    context.fill();
    context.globalAlpha = 1;
    context.stroke();
    context.setLineDash([]);
  }
  context.beginPath();
  context.arc(x, y, precision ? 3 : 5, 0, 2 * Math.PI);
  context.fill();
}

export function drawAxes(context, view, ticks) {
  Object.assign(context, { strokeStyle: context.fillStyle, lineWidth: 1, font: "12px system-ui, sans-serif" });
  context.globalAlpha = 0.35;
  context.strokeRect(view.left + 0.5, view.top + 0.5, view.width - 1, view.height - 1);
  context.globalAlpha = 0.75;
  const label = (value) => String(value).replace("-", "−");
  Object.assign(context, { textAlign: "center", textBaseline: "top" });
  for (const x of ticks.x) context.fillText(label(x), view.pixel([x, 0])[0], view.top + view.height + 6);
  Object.assign(context, { textAlign: "right", textBaseline: "middle" });
  for (const y of ticks.y) context.fillText(label(y), view.left - 6, view.pixel([0, y])[1]);
  context.fillText("θ₂", view.left - 6, view.top + 8);
  Object.assign(context, { textAlign: "right", textBaseline: "top" });
  context.fillText("θ₁", view.left + view.width, view.top + view.height + 6);
  context.globalAlpha = 1;
}
