"""What the paper says about Table 1."""

from vadam.experiments.ledger import Claim

CLAIMS = (
    Claim("uci-comparable", "§6.2, Table 1", "BBVI and Vadam perform comparably."),
    Claim("uci-dropout", "§6.2, Table 1", "MC-Dropout outperforms both BBVI and Vadam."),
    Claim("uci-vogn", "§6.2", "VOGN shows results similar to those of Vadam and BBVI."),
    Claim(
        "uci-rmse",
        "Table 1",
        "By a paired t-test on RMSE, BBVI is better on Boston, Concrete, Kin8nm and Wine, Vadam on Energy, Power and Yacht.",
    ),
    Claim(
        "uci-loglik",
        "Table 1",
        "By a paired t-test on log-likelihood, BBVI is better on Boston, Concrete, Kin8nm and Wine, Vadam on Energy and "
        "Yacht.",
    ),
    Claim("uci-trend", "§6.2", "On other data sets too, VOGN and Vadam converge much faster than BBVI."),
    Claim(
        "uci-quality", "Abstract, §7", "The uncertainty estimates are of a quality comparable to existing VI methods."
    ),
)
