# ruff: noqa: E402
"""Run by torchrun: Lightning's own DistributedDataParallel with the callback, every optimizer."""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).parents[1]))

import lightning
import torch
import torch.distributed as dist
from leaving import leave
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from specs import SPECS, Spec
from vadam.integrations.lightning import PosteriorCallback
from vadam.optim.sample import Owner

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
G = torch.Generator().manual_seed(0)
X, Y = torch.randn(32, 3, generator=G), torch.randn(32, 1, generator=G)


class Regression(lightning.LightningModule):
    def __init__(self, spec: Spec) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.spec, self.drawn, self.holds_sample = spec, [], []

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.holds_sample.append(self.opt.holds_sample)
        self.drawn.append(torch.cat([p.detach().flatten() for p in self.net.parameters()]))
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, index: int) -> None:
        self.net(batch[0])  # the first time before training, when VOGN is attached to the network inside

    def configure_optimizers(self) -> Any:
        self.opt = self.spec.make_for(self.net, num_data=32)
        return self.opt


class SavingInTheMiddle(lightning.Callback):
    """Between two micro-batches the weights hold a sample; what is saved is the mean."""

    saved = 0

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if pl_module.opt._weights.owner is Owner.LOOP:
            weights, mean = pl_module.state_dict(), pl_module.opt.posterior(pl_module).mean
            assert all(torch.equal(weights[name], mean[name]) for name in mean), "not the mean"
            self.saved += 1


def equal_on_all_ranks(x: torch.Tensor) -> bool:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return all(torch.equal(parts[0], part) for part in parts)


def main(folder: str) -> None:
    for spec in SPECS:
        if "attach" not in spec.ways:
            continue
        module, saving = Regression(spec), SavingInTheMiddle()
        lightning.Trainer(
            max_epochs=2, accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]), logger=False,
            accumulate_grad_batches=2, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder, callbacks=[PosteriorCallback(), saving],
        ).fit(module, *(DataLoader(TensorDataset(X, Y), batch_size=4) for _ in range(2)))  # fmt: skip
        assert saving.saved
        post = module.opt.posterior(module)
        assert list(post.mean) == ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"]
        for value in (*post.mean.values(), *post.precision.values()):
            assert equal_on_all_ranks(value), f"{spec}: the ranks differ"
        assert all(module.holds_sample), f"{spec}: a micro-batch was taken at the mean"
        assert torch.equal(module.drawn[0], module.drawn[1]), f"{spec}: micro-batches have samples of their own"
        assert not equal_on_all_ranks(module.drawn[0]), f"{spec}: the ranks drew the same noise"
        if dist.get_rank() == 0:
            print("ok", spec, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
