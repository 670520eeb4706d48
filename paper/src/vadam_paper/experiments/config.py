"""The part of a configuration that every experiment has, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Config:
    """``revision`` is raised when the code of an experiment changes its results, so that older rows are not resumed."""

    EXTENT: ClassVar[tuple[str, ...]] = ()
    """Fields that add cells and change the result of none: the fingerprint leaves them out, so that a run can be extended."""

    experiment: str
    preset: str
    protocol: str
    seed: int = 0
    revision: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def fingerprint(self) -> str:
        fields = {name: value for name, value in self.as_dict().items() if name not in self.EXTENT}
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
