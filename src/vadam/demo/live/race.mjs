// Run the optimizers on one problem from one start, with the same minibatches and the same noise, and record every step.

import { RandomState } from "./random.mjs";
import { adam, DEFAULTS, theorem1Weight, vadam, vogn } from "./rules.mjs";

const FINAL_RATE = 0.05; // the learning rate falls linearly to this share of itself
const START = 1; // precision of q at the start beyond the prior's, so that q is proper at tau = 0 too
const ANNEALED_UNTIL = 0.5; // tau falls linearly to 0 over this share of the steps

export const METHODS = {
  adam: { label: "Adam", rule: adam },
  vadam: { label: "Vadam", rule: vadam },
  corrected: { label: "Vadam, corrected", rule: vadam, corrected: true },
  vogn: { label: "VOGN", rule: vogn, perExample: true },
};

// Return the noise and the minibatch of every step.
export function draws(seed, steps, M, N) {
  const noise = new RandomState(seed);
  const order = new RandomState(seed + 1000);
  return Array.from({ length: steps }, () => ({ noise: [noise.normal(), noise.normal()], batch: order.subset(M, N) }));
}

// Return the mean gradient of a minibatch and its curvature: the mean of squares, or the square of the mean.
export function estimate(gradients, perExample) {
  const g = [0, 0];
  const squares = [0, 0];
  for (const gradient of gradients) {
    for (let d = 0; d < 2; d++) {
      g[d] += gradient[d] / gradients.length;
      squares[d] += gradient[d] ** 2 / gradients.length;
    }
  }
  return { g, h: perExample ? squares : [g[0] * g[0], g[1] * g[1]] };
}

// Return the rule's arguments at the first step.
export function ruleArguments(name, problem, { alpha, lam, tau, M }) {
  return {
    ...DEFAULTS,
    ...problem.rates,
    N: problem.N,
    lam: name === "adam" ? lam * problem.adamPrior : lam,
    initPrecision: lam + START,
    alpha: name === "vogn" ? alpha * problem.vognRate : alpha,
    tau,
    w: METHODS[name].corrected ? theorem1Weight(M, problem.numExamples) : 1,
  };
}

// Return the means and precisions of one method at steps 0, ..., settings.steps; a point has no precision.
export function run(name, problem, settings, drawn) {
  const { rule, perExample } = METHODS[name];
  const path = { mean: [], precision: [] };
  const args = ruleArguments(name, problem, settings);
  const { alpha, tau } = args;
  let state = settings.start.map((mu) => rule.init(mu, args));
  for (let t = 0; t <= settings.steps; t++) {
    const share = t / settings.steps;
    args.alpha = alpha * (1 - (1 - FINAL_RATE) * share);
    args.tau = settings.anneal ? tau * Math.max(0, 1 - share / ANNEALED_UNTIL) : tau;
    const mean = state.map((weight) => weight.mu);
    const precision = rule.precision ? state.map((weight) => rule.precision(weight, args)) : null;
    path.mean.push(mean);
    path.precision.push(precision);
    if (t === settings.steps) break;
    const { noise, batch } = drawn[t];
    const theta = precision ? mean.map((mu, d) => mu + noise[d] / Math.sqrt(precision[d])) : mean;
    const { g, h } = estimate(problem.gradients(theta, batch), perExample);
    state = state.map((weight, d) => rule.update(weight, g[d], h[d], args));
  }
  return path;
}

// Return the path of every method by name.
export function race(problem, settings) {
  const drawn = draws(settings.seed, settings.steps, settings.M, problem.numExamples);
  return Object.fromEntries(Object.keys(METHODS).map((name) => [name, run(name, problem, settings, drawn)]));
}
