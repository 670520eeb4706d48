"""The rows of the registry, one file per kind of task."""
