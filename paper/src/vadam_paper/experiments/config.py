"""The common part of all configurations, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Config:
    """The common fields; raise ``revision`` when a code change affects results, so that older rows are not resumed."""

    EXTENT: ClassVar[tuple[str, ...]] = ()
    """Fields that add cells without changing others: they are not in the fingerprint, so that a run can be extended."""

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
