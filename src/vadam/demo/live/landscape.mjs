// The landscape of the paper's appendix L: one flat valley, many sharp minima.
//
// The paper's function has no data. Here it is the mean of 20 examples, each tilted by a slope; the slopes cancel in the
// mean. A minibatch sees a tilted landscape, so its size matters.

const NUM_EXAMPLES = 20;
const TILT = 0.5;

const TILTS = Array.from({ length: NUM_EXAMPLES }, (_, i) => {
  const angle = (2 * Math.PI * i) / NUM_EXAMPLES;
  return [TILT * Math.cos(angle), TILT * Math.sin(angle)];
});

// Return F(x, y) = -exp(-(x sin 20y + y sin 20x)^2 - (x cos 10y - y sin 10x)^2).
export function height([x, y]) {
  const a = x * Math.sin(20 * y) + y * Math.sin(20 * x);
  const b = x * Math.cos(10 * y) - y * Math.sin(10 * x);
  return -Math.exp(-a * a - b * b);
}

export function slope([x, y]) {
  const a = x * Math.sin(20 * y) + y * Math.sin(20 * x);
  const b = x * Math.cos(10 * y) - y * Math.sin(10 * x);
  const ax = Math.sin(20 * y) + 20 * y * Math.cos(20 * x);
  const ay = 20 * x * Math.cos(20 * y) + Math.sin(20 * x);
  const bx = Math.cos(10 * y) - 10 * y * Math.cos(10 * x);
  const by = -10 * x * Math.sin(10 * y) - Math.sin(10 * x);
  const twiceDepth = 2 * Math.exp(-a * a - b * b);
  return [twiceDepth * (a * ax + b * bx), twiceDepth * (a * ay + b * by)];
}

// Return the trace of the Hessian: 2 at the origin, hundreds at the sharp minima.
export function sharpness([x, y]) {
  const e = 1e-5;
  return (slope([x + e, y])[0] - slope([x - e, y])[0] + slope([x, y + e])[1] - slope([x, y - e])[1]) / (2 * e);
}

// Return the problem: what the optimizers see, and the settings that the reader does not choose.
export function landscapeProblem() {
  return {
    numExamples: NUM_EXAMPLES,
    N: 1, // the function itself is the negative log-likelihood, as in the paper: data_weight = 1 / num_data
    adamPrior: 0, // Adam minimises the function itself
    vognRate: 10, // VOGN divides by s, not by its root, and needs a larger learning rate
    rates: { gamma1: 0.9, gamma2: 0.9, beta: 0.1 },
    gradients(theta, batch) {
      const [x, y] = slope(theta);
      return batch.map((i) => [x + TILTS[i][0], y + TILTS[i][1]]);
    },
  };
}
