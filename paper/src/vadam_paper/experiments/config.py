"""The part of a configuration that every experiment has, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Config:
    """``revision`` is raised when the code of an experiment changes its results, so that older rows are not resumed."""

    experiment: str
    preset: str
    protocol: str
    seed: int = 0
    revision: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def fingerprint(self) -> str:
        canonical = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
