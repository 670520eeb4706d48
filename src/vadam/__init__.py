"""Bayesian deep learning at the price of Adam: change the optimizer, keep the network, get a posterior over the weights."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vadam.optim import *  # noqa: F403
    from vadam.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Import all public names at the first use of one, so that ``vadam --help`` does not import torch."""
        from importlib import import_module
        from importlib.util import find_spec

        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            # Import the module alone: the modules of the public names may import it.
            return import_module(f"{__name__}.{name}")
        if not name.startswith("_") or name == "__all__":
            public = import_module("vadam.public")
            globals().update({known: getattr(public, known) for known in public.__all__}, __all__=public.__all__)
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
