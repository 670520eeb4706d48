"""How the programs of torchrun end."""

import gc

import torch.distributed as dist


def leave() -> None:
    """Call it when nothing holds a model any more.

    A wrapped model holds the process group, in cycles: without the collection gloo's threads outlive the group and may ask for the
    interpreter's lock while it shuts down, which aborts the process ("terminate called without an active exception").
    """
    gc.collect()
    dist.destroy_process_group()
