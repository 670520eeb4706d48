"""The common part of the reinforcement-learning experiments: the six methods of App. K, networks, trials, curves."""
