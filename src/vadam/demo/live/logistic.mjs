// Logistic regression with two weights, its posterior, and the best Gaussian with independent weights.

const sigmoid = (z) => (z >= 0 ? 1 / (1 + Math.exp(-z)) : Math.exp(z) / (1 + Math.exp(z)));
const softplus = (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

export class Logistic {
  // Take rows [x1, x2, y] with y = 1 or 0. The loss of a row is softplus(a w), a = -x for y = 1 and x for y = 0.
  constructor(rows) {
    this.rows = rows.map(([x1, x2, y]) => (y > 0 ? [-x1, -x2] : [x1, x2]));
  }

  // Return the gradient of the loss of each example of a minibatch.
  gradients(weights, batch) {
    return batch.map((i) => {
      const a = this.rows[i];
      const p = sigmoid(a[0] * weights[0] + a[1] * weights[1]);
      return [p * a[0], p * a[1]];
    });
  }

  logLikelihood(weights) {
    let sum = 0;
    for (const a of this.rows) sum -= softplus(a[0] * weights[0] + a[1] * weights[1]);
    return sum;
  }

  // Return mean and precision of the Gaussian with independent weights that maximises the ELBO. At the optimum the
  // gradient of the mean is zero, and the precision is lam + sum of a^2 E[sigmoid'].
  meanField(lam) {
    let mean = [0, 0];
    let precision = [0, 1].map((d) => this.rows.reduce((sum, a) => sum + a[d] ** 2 / 4, lam));
    for (let iteration = 0; iteration < 500; iteration++) {
      const { g, H } = this.expectedDerivatives(mean, precision, lam);
      const det = H[0] * H[2] - H[1] * H[1];
      const step = [(H[2] * g[0] - H[1] * g[1]) / det, (H[0] * g[1] - H[1] * g[0]) / det];
      const miss = Math.abs(H[0] / precision[0] - 1) + Math.abs(H[2] / precision[1] - 1);
      mean = [mean[0] - step[0], mean[1] - step[1]];
      precision = [(precision[0] + H[0]) / 2, (precision[1] + H[2]) / 2]; // half way: the whole way can cycle
      if (Math.abs(step[0]) + Math.abs(step[1]) + miss < 1e-10) return { mean, precision };
    }
    throw new Error(`the exact posterior did not converge for prior precision ${lam}`);
  }

  // Return the expected gradient and Hessian [xx, xy, yy] of the negative log-joint under a Gaussian.
  expectedDerivatives(mean, precision, lam) {
    const g = [lam * mean[0], lam * mean[1]];
    const H = [lam, 0, lam];
    for (const a of this.rows) {
      const logit = a[0] * mean[0] + a[1] * mean[1];
      const [p, curvature] = expectedSigmoid(logit, a[0] ** 2 / precision[0] + a[1] ** 2 / precision[1]);
      g[0] += p * a[0];
      g[1] += p * a[1];
      H[0] += curvature * a[0] * a[0];
      H[1] += curvature * a[0] * a[1];
      H[2] += curvature * a[1] * a[1];
    }
    return { g, H };
  }
}

// Return E sigmoid(z) and E sigmoid'(z) for z ~ N(mean, variance), by the trapezoidal rule: its error vanishes exponentially.
export function expectedSigmoid(mean, variance) {
  const deviation = Math.sqrt(variance);
  const half = Math.ceil(Math.max(36, 16 * deviation));
  let total = 0;
  let p = 0;
  let curvature = 0;
  for (let k = -half; k <= half; k++) {
    const e = (8.5 * k) / half;
    const weight = Math.exp(-0.5 * e * e);
    const q = sigmoid(mean + deviation * e);
    total += weight;
    p += weight * q;
    curvature += weight * q * (1 - q);
  }
  return [p / total, curvature / total];
}

// Return (KL(p, q) + KL(q, p)) / 2 for two Gaussians with independent weights.
export function symmetricKl(p, q) {
  let sum = 0;
  for (let d = 0; d < 2; d++) {
    const ratio = p.precision[d] / q.precision[d];
    sum += ratio + 1 / ratio - 2 + (p.mean[d] - q.mean[d]) ** 2 * (p.precision[d] + q.precision[d]);
  }
  return sum / 4;
}

// Return the log-densities above which the given shares of the mass lie, for log-densities on an even grid.
export function massLevels(logDensities, masses) {
  const descending = Float64Array.from(logDensities).sort().reverse();
  const density = descending.map((value) => Math.exp(value - descending[0]));
  const total = density.reduce((sum, value) => sum + value, 0);
  return masses.map((mass) => {
    let enclosed = 0;
    const last = density.findIndex((value) => (enclosed += value) >= mass * total);
    return descending[last];
  });
}

// Return the problem: what the optimizers see, and the settings that the reader does not choose.
export function logisticProblem(rows) {
  const model = new Logistic(rows);
  return {
    model,
    numExamples: rows.length,
    N: rows.length,
    adamPrior: 1, // Adam minimises the negative log-posterior
    vognRate: 1,
    rates: { gamma1: 0.9, gamma2: 0.998, beta: 0.002 },
    gradients: (weights, batch) => model.gradients(weights, batch),
  };
}
