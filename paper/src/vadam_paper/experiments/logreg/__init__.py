"""Bayesian logistic regression by stochastic variational rules: what the three artefacts of Fig. 2 share.

Twenty splits or restarts are one stack: means and precisions are ``[E, D]``, and one compiled loop moves them together.
"""
