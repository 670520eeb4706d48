"""What the paper says about the marginal value of adaptive methods."""

from vadam.experiments.ledger import Claim

CLAIMS = (
    Claim("lm-sgd", "App. M", "VadaGrad generalises well and performs comparably to SGD."),
    Claim("lm-adaptive", "App. M", "AdaGrad and Adam generalise worse than SGD and VadaGrad."),
    Claim("lm-cifar", "App. M", "On CIFAR-10 the improvement by VadaGrad is minor."),
)
