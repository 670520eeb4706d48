"""The commands that this package adds to ``vadam``: entry points of the group ``vadam.commands``."""
