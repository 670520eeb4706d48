// The update rules for one weight, line by line those of vadam/rules/*.py. Numbers are float64, as in the tests of the Python rules.
//
// Symbols: mu the mean, g the minibatch gradient at the sampled weights, h the curvature, N the number of data,
// lam the prior precision, tau the knob between inference (1) and optimisation (0), w Theorem 1's weight.

export const TINY = 1e-19;
export const DEFAULTS = { tau: 1, w: 1, eps: 1e-8 };

// Return x / (scale + constant), and 0 where the denominator is 0.
export function ratio(x, scale, constant) {
  const d = scale + constant;
  return constant >= TINY ? x / d : (x * Math.min(d / TINY, 1)) / Math.max(d, TINY);
}

// Return Theorem 1's w: E[g g] is about w times the mean of squared per-example gradients.
export function theorem1Weight(M, N) {
  return M === 1 ? 1 : (N - M) / (M * (N - 1));
}

// vadam/rules/adam.py: a point, no posterior.
export const adam = {
  init: (mu) => ({ mu, m: 0, s: 0, gamma1T: 1, gamma2T: 1 }),

  update({ mu, m, s, gamma1T, gamma2T }, g, h, { alpha, gamma1, gamma2, N, lam, eps }) {
    gamma1T = gamma1 * gamma1T;
    gamma2T = gamma2 * gamma2T;
    g = g + (lam / N) * mu;
    m = gamma1 * m + (1 - gamma1) * g;
    s = gamma2 * s + (1 - gamma2) * g * g;
    const mHat = m / (1 - gamma1T);
    const sHat = s / (1 - gamma2T);
    mu = mu - (alpha * mHat) / (Math.sqrt(sHat) + eps);
    return { mu, m, s, gamma1T, gamma2T };
  },
};

// vadam/rules/vadam.py: the paper's Fig. 1, h = g g.
export const vadam = {
  init: (mu, { initPrecision, N, lam }) => ({ mu, m: 0, s: 0, s0: (initPrecision - lam) / N, gamma1T: 1, gamma2T: 1 }),

  precision: ({ s, s0 }, { N, lam, tau, w }) => (N / w) * s + (N * s0 + tau * lam),

  update({ mu, m, s, s0, gamma1T, gamma2T }, g, h, { alpha, gamma1, gamma2, N, lam, tau }) {
    m = gamma1 * m + (1 - gamma1) * (g + ((tau * lam) / N) * mu);
    s = (1 - tau * (1 - gamma2)) * s + (1 - gamma2) * h;
    s0 = (1 - tau * (1 - gamma2)) * s0;
    gamma1T = gamma1 * gamma1T;
    gamma2T = gamma2 * gamma2T;
    const mHat = m / (1 - gamma1T);
    const sHat = s / (1 - gamma2T);
    mu = mu - alpha * ratio(mHat, Math.sqrt(sHat), (tau * lam) / N);
    return { mu, m, s, s0, gamma1T, gamma2T };
  },
};

// vadam/rules/vogn.py: h is the mean of squared per-example gradients.
export const vogn = {
  init: (mu, { initPrecision, N, lam }) => ({ mu, s: (initPrecision - lam) / N }),

  precision: ({ s }, { N, lam, tau }) => N * s + tau * lam,

  update({ mu, s }, g, h, { alpha, beta, N, lam, tau }) {
    s = (1 - tau * beta) * s + beta * h;
    mu = mu - alpha * ratio(g + ((tau * lam) / N) * mu, s, (tau * lam) / N);
    return { mu, s };
  },
};
