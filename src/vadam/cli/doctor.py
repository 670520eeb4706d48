"""The ``vadam doctor`` command: what is installed, what runs where, and what is missing for more."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from vadam import __version__
from vadam.cli.json_output import Json, print_json

EXTRAS = {
    "cli": "the command line",
    "sklearn": "VadamRegressor, VadamClassifier, vadam fit and vadam predict",
    "tune": "the search over priors and noise (vadam.tuning)",
    "plot": "figures: vadam.plot, vadam demo, reports",
    "data": "Boston and Concrete for vadam demo",
    "sweep": "experiments on a Dask cluster",
    "lightning": "PosteriorCallback for Lightning",
    "hf": "the Hugging Face Trainer and Accelerate",
    "rl": "ParameterNoiseDDPG for Stable-Baselines3",
}
"""The features that each extra of the distribution unlocks."""

PACKAGES = ("torch", "numpy", "llvmlite", "safetensors")


def doctor(as_json: Json = False) -> None:
    """Show versions, installed extras, the backend of a step, threads and folders; name what is missing and how to get it."""
    found = examine()
    print_json(found) if as_json else _show(found)


def examine() -> dict[str, Any]:
    """Return what ``vadam doctor`` shows."""
    import torch

    return {
        "vadam": __version__,
        "vadam-paper": _version("vadam-paper"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {name: _extra(name) for name in EXTRAS},
        "backend": _backend(),
        "devices": _devices(torch),
        "threads": {
            "torch": torch.get_num_threads(),
            "cores": os.cpu_count(),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        },
        "folders": {
            "VADAM_DATA": _folder(os.environ.get("VADAM_DATA")),
            "cache": _folder(os.environ.get("VADAM_CACHE") or "~/.cache/vadam"),
        },
        "advice": _advice(torch),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _extra(name: str) -> dict[str, Any]:
    missing = [package for package in _packages_of(name) if _version(package) is None]
    return {"unlocks": EXTRAS[name], "installed": not missing, "missing": missing}


def _packages_of(extra: str) -> list[str]:
    """Return the packages that an extra requires, from the metadata of the installed distribution."""
    try:
        lines = requires("vadam") or []
    except PackageNotFoundError:  # the sources are on the path, and nothing is installed
        return []
    mine = [line for line in lines if re.search(rf"extra == ['\"]{extra}['\"]", line)]
    return [match[0] for line in mine if (match := re.match(r"[\w.-]+", line))]


def _backend() -> dict[str, str]:
    from vadam.backends import has_native

    if has_native():
        return {
            "auto": "native",
            "reason": "llvmlite is installed: float32 weights on the CPU use native loops, all others torch's operators (plain)",
        }
    return {"auto": "plain", "reason": "llvmlite cannot be imported, so all weights use torch's operators"}


def _devices(torch: Any) -> dict[str, Any]:
    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    mps = torch.backends.mps.is_available()
    return {"cuda": cuda, "built_for_cuda": torch.version.cuda, "mps": mps}


def _folder(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    folder = Path(path).expanduser()
    return {"path": str(folder), "exists": folder.is_dir()}


def _advice(torch: Any) -> list[str]:
    from vadam.backends import has_native

    advice = []
    if not has_native():
        advice.append("pip install llvmlite: steps on the CPU become several times faster.")
    if find_spec("vadam_paper") is None:
        advice.append("pip install ./paper in a checkout: adds vadam list, run, reproduce and report.")
    if torch.get_num_threads() > (os.cpu_count() or 1):
        advice.append(f"torch uses {torch.get_num_threads()} threads on {os.cpu_count()} cores: lower OMP_NUM_THREADS.")
    if torch.version.cuda and not torch.cuda.is_available():
        advice.append("torch is built for CUDA and finds no GPU: check the driver with nvidia-smi.")
    return advice


def _show(found: dict[str, Any]) -> None:
    installed = {name: known for name, known in found["packages"].items() if known}
    lines = [
        f"vadam {found['vadam']}, Python {found['python']}, {found['platform']}",
        "packages   " + ", ".join(f"{name} {known}" for name, known in installed.items()),
        f"paper      {found['vadam-paper'] or 'not installed'}",
        f"backend    {found['backend']['auto']}: {found['backend']['reason']}",
        f"devices    cpu{_device_names(found['devices'])}",
        f"threads    {found['threads']['torch']} of {found['threads']['cores']} cores",
        *(f"{name:<11}{_folder_line(folder)}" for name, folder in found["folders"].items()),
        "extras",
        *(_extra_line(name, extra) for name, extra in found["extras"].items()),
        *(f"advice     {line}" for line in found["advice"]),
    ]
    for line in lines:
        typer.echo(line)


def _device_names(devices: dict[str, Any]) -> str:
    names = [*devices["cuda"], *(["mps"] if devices["mps"] else [])]
    build = (
        f"torch is built for CUDA {devices['built_for_cuda']}" if devices["built_for_cuda"] else "torch without CUDA"
    )
    return "".join(f", {name}" for name in names) + ("" if names else f" ({build})")


def _folder_line(folder: dict[str, Any] | None) -> str:
    if folder is None:
        return "not set"
    return folder["path"] if folder["exists"] else f"{folder['path']} (not there yet)"


def _extra_line(name: str, extra: dict[str, Any]) -> str:
    if extra["installed"]:
        return f"  {name:<10} installed: {extra['unlocks']}"
    return f'  {name:<10} missing {", ".join(extra["missing"])}: pip install "vadam[{name}]" for {extra["unlocks"]}'
