"""Experiments: one folder per artefact of the paper.

Each folder is a package of small modules with fixed names:

    __init__.py   ``EXPERIMENT``: name, artefact, title (light: importing it imports no torch)
    README.md     the paper's claim, the protocol, the result, the numbered deviations
    APPENDIX.md   what was tried on the way (optional)
    config.py     ``Config`` (typed, frozen) and ``preset(preset, protocol) -> Config``
    run.py        ``cells(config) -> {key: expected cost}`` and ``run_cell(config, key, context) -> result``
    claims.py     ``CLAIMS``: the paper's statements, each with a function that judges it from recorded results
    table.py      ``table(results)`` and ``notes(results)``: paper number beside authors' protocol beside text protocol
    plot.py       ``figures(results)``: matplotlib figures by name
    paper.json    the numbers of the paper and of the figures that its authors ship

A folder with only ``__init__.py`` and ``claims.py`` is declared: the ledger lists its claims as not run.
Experiments never import one another; shared code has its own folders (``logreg/``, ``rl/``).
"""

from vadam_paper.experiments.contract import PRESETS, PROTOCOLS, Experiment, ExperimentError, experiments, find

__all__ = ["PRESETS", "PROTOCOLS", "Experiment", "ExperimentError", "experiments", "find"]
