"""Convert results to compact JSON: tensors and arrays to lists, seven significant digits, null for NaN."""

import json
import math
from typing import Any


def jsonify(value: Any, digits: int = 7) -> Any:
    """Return the value as nested dicts, lists and rounded numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): jsonify(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonify(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def dumps(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
