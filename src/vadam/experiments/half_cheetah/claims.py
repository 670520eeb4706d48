"""What the paper says about exploration in deep reinforcement learning."""

from vadam.experiments.ledger import Claim

CLAIMS = (
    Claim("rl-sgd", "§6.3, Fig. 3", "VadaGrad and Vadam clearly learn faster than SGD-Plain and SGD-Explore."),
    Claim("rl-sgd-late", "App. K", "The SGD-based methods do not learn well throughout."),
    Claim("rl-early", "§6.3, App. K", "Vadam learns faster than Adam-Plain and Adam-Explore early on."),
    Claim("rl-vadagrad-early", "App. K", "VadaGrad learns faster than SGD- and Adam-based methods initially."),
    Claim("rl-catch-up", "§6.3, App. K", "The Adam-based methods catch up and reach a comparable final performance."),
    Claim("rl-unstable", "App. K", "Adam-Explore is unstable, with high fluctuations; Vadam is more stable."),
    Claim("rl-premature", "App. K", "VadaGrad converges prematurely and is outperformed by Adam-based methods."),
    Claim("rl-no-premature", "App. K", "Vadam does not suffer from premature convergence."),
    Claim("rl-final", "App. K", "At the end Vadam and Adam-Explore are slightly better than Adam-Plain."),
)
