"""What the paper says about the price of its algorithms."""

from vadam.experiments.ledger import Claim

CLAIMS = (
    Claim("cost-computation", "Abstract, §1", "The algorithms need less computation than existing VI methods."),
    Claim("cost-vogn", "§3.2, §3.4", "VOGN with M > 1 takes more effort and computation than Vprop and Vadam."),
)
