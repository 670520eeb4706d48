"""Read distributed checkpoints without running code from them.

torch.distributed.checkpoint unpickles the description of a checkpoint and every value that is not a tensor, so a file that somebody
else has written could run code. Here both are first read by unpicklers that know only the types of a checkpoint.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, Metadata
from torch.distributed.checkpoint.planner import ReadItem

_TYPES = {
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    *(("pathlib", name) for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")),
    *(("pathlib._local", name) for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")),
    *(
        ("torch.distributed.checkpoint.metadata", name)
        for name in (
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "Metadata",
            "MetadataIndex",
            "StorageMeta",
            "TensorProperties",
            "TensorStorageMetadata",
            "_MEM_FORMAT_ENCODING",
        )
    ),
}
"""Everything that the description of a checkpoint is made of, besides dtypes."""


class UnsafeCheckpoint(ValueError):
    """Raised if a checkpoint contains more than tensors, numbers and text."""


class _DescriptionUnpickler(pickle.Unpickler):
    """Unpickles the description of a checkpoint and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if (module, name) in _TYPES or is_dtype:
            return super().find_class(module, name)
        raise UnsafeCheckpoint(f"it names {module}.{name}, which is not part of a checkpoint")


class CheckedReader(FileSystemReader):
    """A reader that refuses descriptions which name other types than those of a checkpoint."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the description of the checkpoint."""
        path = Path(self.path) / ".metadata"
        try:
            with path.open("rb") as file:
                found = _DescriptionUnpickler(file).load()
            if not isinstance(found, Metadata):
                raise UnsafeCheckpoint(f"its description is a {type(found).__name__}")
        except FileNotFoundError:
            raise
        except Exception as error:
            raise UnsafeCheckpoint(
                f"the checkpoint {str(self.path)!r} is damaged, or not a checkpoint: {error}"
            ) from error
        return super().read_metadata(*args, **kwargs)


class CheckedPlanner(DefaultLoadPlanner):
    """A planner that refuses values which are more than tensors, numbers, text and containers of them."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Load one value that is not a tensor."""
        try:
            torch.load(value, weights_only=True)
        except Exception as error:
            raise UnsafeCheckpoint(
                f"the checkpoint's value {read_item.dest_index.fqn!r} is not a tensor, a number, text or a container of them: {error}"
            ) from error
        value.seek(0)
        super().load_bytes(read_item, value)


def size_on_disk(path: Path) -> int:
    """Return the number of bytes of all files of a checkpoint."""
    return sum(file.stat().st_size for file in path.iterdir() if file.is_file())
