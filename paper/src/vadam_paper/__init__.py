"""The reproduction of the Vadam paper (ICML 2018): experiments, claims ledger, report, data, and commands for ``vadam``."""

__version__ = "0.1.0"
