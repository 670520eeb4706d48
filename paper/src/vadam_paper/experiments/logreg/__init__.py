"""Bayesian logistic regression by stochastic variational rules: the common part of the three artefacts of Fig. 2.

Twenty splits or restarts are one stack: means and precisions are ``[E, D]``, and one compiled loop updates them together.
"""
