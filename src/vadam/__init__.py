"""Bayesian deep learning at the price of Adam: change the optimizer, keep the network, get a posterior over the weights."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vadam.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Import all public names at the first use of one, so that ``vadam --help`` does not import torch."""
        from importlib import import_module

        if not name.startswith("_") or name == "__all__":
            public = import_module("vadam.public")
            names = getattr(public, "__all__", ())  # none while it is being imported
            globals().update({known: getattr(public, known) for known in names}, __all__=names)
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
