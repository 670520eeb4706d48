"""The estimators of the library default to what the protocol ``best`` has found."""

from vadam.estimators import VadamRegressor
from vadam_paper.experiments.uci import methods
from vadam_paper.experiments.uci.config import preset


def test_many_rows_as_in_table_1():
    """Concrete's training part is small in the protocol ``best``, Wine's is large."""
    best, model = preset("paper", "best"), VadamRegressor()
    for name, rows in (("concrete", 927), ("wine", 1439)):
        assert model._batch_size(rows) == methods.batch_size(name)
    assert (model._epochs(927), model._epochs(100_000)) == (best.epochs, best.epochs_large)
    assert model._space(model._method(), "gaussian") == methods.space(best, "vadam", "wine")
