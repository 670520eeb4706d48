"""What the experiments in reinforcement learning share: the six methods of App. K, networks, trials, curves."""
