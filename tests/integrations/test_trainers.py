"""Where people already train: the real Lightning, Hugging Face Trainer, Accelerate and skorch, with nothing but the optimizer changed."""

import logging
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vadam

X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.1 * torch.randn(64, 1, generator=torch.Generator().manual_seed(1))


class Recorder:
    """Notes the weights at which gradients are taken."""

    def __init__(self, p: nn.Parameter) -> None:
        self.p, self.seen = p, []
        p.register_hook(lambda grad: self.seen.append(p.detach().clone()))

    def distinct(self) -> int:
        return len({tuple(w.flatten().tolist()) for w in self.seen})


def lightning_module(samples: int, attach: bool):
    lightning = pytest.importorskip("lightning", reason="Lightning is not installed: pip install lightning")

    class Regression(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 1)
            self.recorder = Recorder(self.net.weight)

        def training_step(self, batch, index):
            x, y = batch
            return nn.functional.mse_loss(self.net(x), y)

        def configure_optimizers(self):
            self.opt = vadam.Vadam(self.parameters(), lr=0.05, num_data=64, init_precision=100.0, samples=samples)
            return self.opt.attach(self.net) if attach else self.opt

    return lightning, Regression()


@pytest.mark.parametrize(
    ("samples", "attach", "options"),
    [
        (1, False, {}),
        (4, False, {"gradient_clip_val": 1.0}),
        (1, True, {"accumulate_grad_batches": 2}),
        (1, False, {"precision": "bf16-mixed"}),
    ],
    ids=["plain", "samples-and-clipping", "accumulation", "bf16"],
)
def test_lightning(samples: int, attach: bool, options: dict, tmp_path: Path) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning, module = lightning_module(samples, attach)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=tmp_path, **options,
        )  # fmt: skip
        trainer.fit(module, DataLoader(TensorDataset(X, Y), batch_size=16))
    forwards = 3 * 4 * samples
    assert len(module.recorder.seen) == forwards
    assert (
        module.recorder.distinct() == forwards
    )  # every gradient, also of a micro-batch, was taken at a sample of its own
    post = module.opt.posterior(module)
    assert torch.equal(post.mean["net.weight"], module.net.weight.detach())
    assert (post.precision["net.weight"] != 100).all()


def test_hugging_face_trainer(tmp_path: Path) -> None:
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install transformers accelerate"
    )

    class Regression(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 1)

        def forward(self, x=None, labels=None):
            out = self.net(x)
            return {"loss": nn.functional.mse_loss(out, labels), "logits": out}

    torch.manual_seed(0)
    model = Regression()
    recorder = Recorder(model.net.weight)
    opt = vadam.Vadam(model.parameters(), lr=0.05, num_data=64, init_precision=100.0)
    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=16, gradient_accumulation_steps=2, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True, remove_unused_columns=False, max_grad_norm=1.0,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=data, eval_dataset=data, optimizers=(opt, None)
        )
        trainer.train()
        mean = model.net.weight.detach().clone()
        first, second = trainer.evaluate()["eval_loss"], trainer.evaluate()["eval_loss"]
    assert len(recorder.seen) == 2 * 4
    assert recorder.distinct() == 2 * 2  # two micro-batches share the sample of their step
    assert first == second  # evaluation sees the mean
    assert torch.equal(model.net.weight.detach(), mean)
    assert all(not torch.equal(w, mean) for w in recorder.seen)


def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed: pip install accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = nn.Linear(3, 1)
    recorder = Recorder(model.weight)
    opt = vadam.Vadam(model.parameters(), lr=0.05, num_data=64, init_precision=100.0)
    model, wrapped, loader = accelerator.prepare(model, opt, DataLoader(TensorDataset(X, Y), batch_size=16))
    for x, y in loader:
        wrapped.train()
        accelerator.backward(nn.functional.mse_loss(model(x), y))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        wrapped.step()
        wrapped.zero_grad()
    assert recorder.distinct() == 4
    assert (opt.posterior().precision["0"] != 100).all()


def test_skorch_by_name() -> None:
    skorch = pytest.importorskip("skorch", reason="skorch is not installed: pip install skorch")
    net = skorch.NeuralNetRegressor(
        nn.Linear, module__in_features=3, module__out_features=1, optimizer=vadam.Vadam, optimizer__num_data=64, optimizer__samples=2,
        optimizer__init_precision=100.0, lr=0.05, max_epochs=3, batch_size=16, train_split=None, verbose=0,
    )  # fmt: skip
    net.fit(X.numpy().astype(np.float32), Y.numpy().astype(np.float32))
    assert (net.optimizer_.posterior().precision["0"] != 100).all()
    assert float(net.history[-1]["train_loss"]) < float(net.history[0]["train_loss"])
