"""scikit-learn estimators for tables: calibrated predictions, with prior and noise tuned.

from vadam.estimators import VadamRegressor
model = VadamRegressor(random_state=0).fit(X, y)
mean, std = model.predict(X_new, return_std=True)
low, high = model.predict_quantiles(X_new, (0.05, 0.95)).T
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError('the estimators need scikit-learn: pip install "vadam[sklearn]"') from error

from vadam.estimators.classifier import VadamClassifier
from vadam.estimators.regressor import VadamRegressor

__all__ = ["VadamClassifier", "VadamRegressor"]
