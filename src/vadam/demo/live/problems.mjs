// The two figures: their problem, their window, their sliders, and the numbers beside each optimizer.

import { height, landscapeProblem, sharpness } from "./landscape.mjs";
import { logisticProblem, symmetricKl } from "./logistic.mjs";
import { landscapeBackground, PosteriorMap } from "./pictures.mjs";

const number = (value, digits) => value.toFixed(digits).replace("-", "−");

// Return a number with about three significant digits.
const brief = (value) => (value >= 1000 ? "over 1000" : number(value, value < 0.995 ? 2 : value < 99.5 ? 1 : 0));

export function posteriorFigure(rows) {
  const problem = logisticProblem(rows);
  const range = { x: [-0.5, 9.5], y: [-0.5, 4.5] };
  const map = new PosteriorMap(problem.model, range);
  return {
    problem,
    range,
    ticks: { x: [0, 2, 4, 6, 8], y: [0, 1, 2, 3] },
    shape: 0.72,
    pathAlpha: 0.35,
    defaults: { start: [1, 3.5], alpha: 0.1, lam: 0.1, tau: 1, anneal: false, M: 10, seed: 1, steps: 3000 },
    sliders: { alpha: [0.01, 1], lam: [0.03, 3], M: [1, 30] },
    columns: ["KL"],
    exact: (lam) => problem.model.meanField(lam),
    background: (view, ink, lam) => map.background(view, ink, lam),
    readings: (q, exact) => [q.precision ? brief(symmetricKl(q, exact)) : "a point"],
  };
}

export function landscapeFigure() {
  return {
    problem: landscapeProblem(),
    range: { x: [-1.05, 1.05], y: [-1.05, 1.05] },
    ticks: { x: [-1, -0.5, 0, 0.5], y: [-1, -0.5, 0, 0.5] },
    shape: 1,
    pathAlpha: 0.85,
    defaults: { start: [0.8, 0.8], alpha: 0.01, lam: 1, tau: 1, anneal: true, M: 4, seed: 1, steps: 3000 },
    sliders: { alpha: [0.001, 0.1], lam: [0.1, 10], M: [1, 10] },
    columns: ["height", "sharpness"],
    exact: () => null,
    background: (view, ink) => landscapeBackground(view, ink),
    readings: (q) => [number(height(q.mean), 2), number(sharpness(q.mean), 0)],
  };
}
