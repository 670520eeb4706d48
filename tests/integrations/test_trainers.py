"""The real Hugging Face Trainer, Accelerate and skorch, with nothing but the optimizer changed, against loops written by hand."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

import vadam
from matrix import covers
from specs import SPECS, Spec, same, snapshot

LOOPED = pytest.mark.parametrize("spec", [spec for spec in SPECS if "attach" in spec.ways], ids=str)
NEEDS_CLOSURE = pytest.mark.parametrize("spec", [s for s in SPECS if "attach" not in s.ways], ids=str)
SECOND_ORDER = pytest.mark.parametrize(
    "spec", [s for s in SPECS if "attach" not in s.ways and s.differentiable], ids=str
)
N = 32
X = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
Y = (X @ torch.tensor([[1.0], [-2.0], [0.5]])).sin()


@pytest.fixture(autouse=True)
def accelerate_forgets() -> Iterator[None]:
    """Reset Accelerate's process-wide settings, such as bfloat16, which the next test would inherit."""
    yield
    if state := sys.modules.get("accelerate.state"):
        state.AcceleratorState._reset_state(reset_partial_state=True)
        state.GradientState._reset_state()


class Regression(nn.Module):
    """A module with the Trainer's interface: keyword arguments in, a loss out."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.seen: list[list[torch.Tensor]] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.append(self.weights())
        out = self.net(x)
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}

    def weights(self) -> list[torch.Tensor]:
        return [p.detach().clone() for p in self.parameters()]


def pair(spec: Spec, **changes: Any) -> tuple[Regression, vadam.VariationalOptimizer]:
    model = Regression()
    return model, spec.make_for(model, num_data=N, generator=torch.Generator().manual_seed(1), **changes)


def everything(model: Regression, opt: Any) -> list[torch.Tensor]:
    return model.weights() + snapshot(opt)


def loop(model: Regression, opt: Any, *, epochs: int, micro: int = 1, clip: float = 1.0, half: bool = False) -> None:
    """Train in plain torch as the trainers do: ``micro`` minibatches of 8 per step, at one sample."""
    batches = [(X[i : i + 8], Y[i : i + 8]) for i in range(0, N, 8)]
    for _ in range(epochs):
        for first in range(0, len(batches), micro):
            opt.zero_grad()
            for x, y in batches[first : first + micro]:
                opt.train()
                with torch.autocast("cpu", torch.bfloat16, enabled=half):
                    loss = model(x, y)["loss"]
                (loss / micro).backward()
            clip_grad_norm_(model.parameters(), clip)
            opt.step()


@contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people's deprecations
        yield


def trainer(model: Regression, opt: Any, folder: Path, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_args: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, report_to=[], logging_strategy="no", disable_tqdm=True, use_cpu=True,
        remove_unused_columns=False, lr_scheduler_type="constant", max_grad_norm=0.1,
        **{"num_train_epochs": 2, "save_strategy": "no", **options},
    )  # fmt: skip
    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    return InOrder(model=model, args=arguments, train_dataset=data, eval_dataset=data, optimizers=(opt, None))


def test_micro_batches_of_a_classifier_are_averaged_as_the_page_says(tmp_path: Path) -> None:
    """Transformers adds their losses where ``forward`` takes ``**kwargs``, and the squares of gradients would be 16 times too large."""
    transformers = pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')
    page = (Path(__file__).parents[2] / "docs" / "fine-tuning.md").read_text()
    assert "`trainer.model_accepts_loss_kwargs = False`" in page
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(
        vocab_size=10, max_position_embeddings=4, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes
    )  # fmt: skip
    torch.manual_seed(0)
    start = transformers.BertForSequenceClassification(config)
    data = [{"input_ids": row, "labels": row[0] % 3} for row in torch.randint(10, (16, 4))]

    def moved_by(pieces: int) -> torch.Tensor:
        model = transformers.BertForSequenceClassification(config)
        model.load_state_dict(start.state_dict())
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=16 // pieces, gradient_accumulation_steps=pieces,
            max_grad_norm=0.0, report_to=[], logging_strategy="no", save_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        training = transformers.Trainer(model=model, args=arguments, train_dataset=data, optimizers=(sgd, None))
        training.model_accepts_loss_kwargs = False
        training.train()
        pairs = zip(start.parameters(), model.parameters(), strict=True)
        return torch.cat([(before - after).detach().flatten() for before, after in pairs])

    with quietly():
        torch.testing.assert_close(moved_by(4), moved_by(1), rtol=1e-4, atol=1e-6)


@covers("Hugging Face Trainer", "gradient accumulation, clipping, evaluation at the mean")
@LOOPED
def test_hugging_face_trainer(spec: Spec, tmp_path: Path) -> None:
    model, opt = pair(spec)
    with quietly():
        training = trainer(model, opt, tmp_path, gradient_accumulation_steps=2)
        training.train()
        mean, drawn = model.weights(), model.seen
        model.seen = []
        first, second = training.evaluate()["eval_loss"], training.evaluate()["eval_loss"]
    assert first == second
    assert all(same(weights, mean) for weights in model.seen)
    assert all(same(drawn[i], drawn[i + 1]) for i in (0, 2, 4, 6))  # two micro-batches share the sample of their step
    other, by_hand = pair(spec)
    loop(other, by_hand, epochs=2, micro=2, clip=0.1)
    for a, b in zip(everything(model, opt), everything(other, by_hand), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@covers("Hugging Face Trainer", "bf16")
@LOOPED
def test_hugging_face_bf16(spec: Spec, tmp_path: Path) -> None:
    model, opt = pair(spec)
    with quietly():
        trainer(model, opt, tmp_path, bf16=True).train()
    other, by_hand = pair(spec)
    loop(other, by_hand, epochs=2, clip=0.1, half=True)
    for a, b in zip(everything(model, opt), everything(other, by_hand), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@covers("Hugging Face Trainer", "evaluation and saving in the middle, exact resume")
@LOOPED
def test_hugging_face_resume(spec: Spec, tmp_path: Path) -> None:
    """Evaluated and saved after every epoch; a new process would find the checkpoint as this new trainer does."""
    options = {"num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "epoch"}
    model, opt = pair(spec)
    with quietly():
        trainer(model, opt, tmp_path, **options).train()
        resumed, fresh = pair(spec)
        trainer(resumed, fresh, tmp_path, **options).train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    assert same(everything(resumed, fresh), everything(model, opt))


@LOOPED
def test_the_posterior_of_the_best_checkpoint_as_the_page_says(spec: Spec, tmp_path: Path) -> None:
    """The Trainer loads the best weights by itself, and its optimizer stays that of the last step."""
    transformers = pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')
    page = (Path(__file__).parents[2] / "docs" / "fine-tuning.md").read_text()
    assert 'opt.load_state_dict(torch.load(f"{best}/optimizer.pt", weights_only=True))' in page
    seen: dict[int, list[torch.Tensor]] = {}

    class Noting(transformers.TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            post = opt.posterior(model)
            seen[state.global_step] = [*post.mean.values(), *post.precision.values()]

    options = {
        "num_train_epochs": 3,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "load_best_model_at_end": True,
    }
    model, opt = pair(spec)
    with quietly():
        training = trainer(model, opt, tmp_path, metric_for_best_model="loss", greater_is_better=True, **options)
        training.add_callback(Noting)
        training.train()
    best = training.state.best_model_checkpoint
    opt.load_state_dict(torch.load(f"{best}/optimizer.pt", weights_only=True))
    post = opt.posterior(model)
    assert training.state.best_global_step < 12
    assert same([*post.mean.values(), *post.precision.values()], seen[training.state.best_global_step])


@covers("Hugging Face Trainer", "gradient accumulation, clipping, evaluation at the mean", refuses=True)
@NEEDS_CLOSURE
def test_hugging_face_has_no_closures(spec: Spec, tmp_path: Path) -> None:
    model, opt = pair(spec)
    with quietly(), pytest.raises(RuntimeError, match=r"needs step\(closure\)"):
        trainer(model, opt, tmp_path).train()


def small_gpt(transformers: Any) -> Any:
    return transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip


@covers("Hugging Face Trainer", "gradient checkpointing of a transformer with tied weights")
@pytest.mark.parametrize("spec", [s for s in SPECS if "attach" in s.ways and not s.needs_attach], ids=str)
def test_hugging_face_gradient_checkpointing(spec: Spec, tmp_path: Path) -> None:
    """Layers that are run again in the backward pass see the sample of the forward pass."""
    transformers = pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')
    config = small_gpt(transformers)
    tokens = torch.randint(11, (16, 8), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "labels": row} for row in tokens]
    results = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(config)
        opt = spec.make(model.parameters(), num_data=128, generator=torch.Generator().manual_seed(1))
        with quietly():
            arguments = transformers.TrainingArguments(
                output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=8, report_to=[], logging_strategy="no",
                save_strategy="no", disable_tqdm=True, use_cpu=True, gradient_checkpointing=checkpointing, seed=0,
            )  # fmt: skip
            transformers.Trainer(model=model, args=arguments, train_dataset=data, optimizers=(opt, None)).train()
        results.append([p.detach().clone() for p in model.parameters()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@covers("Hugging Face Trainer", "gradient checkpointing of a transformer with tied weights", refuses=True)
@pytest.mark.parametrize("spec", [s for s in SPECS if s.needs_attach], ids=str)
def test_gpt2_looks_up_its_positions_once_for_all_examples(spec: Spec) -> None:
    """GPT-2's positions have no gradient per example; VOGN names the layer and the fix."""
    transformers = pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')
    model = transformers.GPT2LMHeadModel(small_gpt(transformers))
    opt = spec.make_for(model)
    tokens = torch.randint(11, (4, 8))
    opt.zero_grad()
    loss = model(input_ids=tokens, labels=tokens).loss
    with pytest.raises(ValueError, match=r"'transformer.wpe' saw 1 examples.*expand positional embeddings"):
        loss.backward()


@covers("Accelerate", "accumulate, clip_grad_norm_")
@LOOPED
def test_accelerate(spec: Spec) -> None:
    accelerate = pytest.importorskip("accelerate", reason='accelerate is not installed: pip install "vadam[hf]"')
    model, opt = pair(spec)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    loader = DataLoader(TensorDataset(X, Y), batch_size=8)
    wrapped, optimizer, loader = accelerator.prepare(model, opt, loader)
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(wrapped):
                optimizer.train()
                accelerator.backward(wrapped(x, y)["loss"])
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(wrapped.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
    other, by_hand = pair(spec)
    loop(other, by_hand, epochs=2, micro=2, clip=0.1)
    for a, b in zip(everything(model, opt), everything(other, by_hand), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def skorch_net(spec: Spec, **options: Any) -> Any:
    skorch = pytest.importorskip("skorch", reason="skorch is not installed: pip install skorch")
    arguments = {f"optimizer__{name}": value for name, value in {**spec.kwargs, "num_data": N, "samples": 2}.items()}
    rate = arguments.pop("optimizer__lr")
    return skorch.NeuralNetRegressor(
        nn.Linear, module__in_features=3, module__out_features=1, optimizer=spec.build, lr=rate, max_epochs=3, batch_size=8,
        train_split=None, verbose=0, iterator_train__shuffle=False, **{**arguments, **options},
    )  # fmt: skip


@covers("skorch", "by name, two samples a step")
@pytest.mark.parametrize("spec", [s for s in SPECS if "attach" in s.ways and not s.needs_attach], ids=str)
def test_skorch_by_name(spec: Spec) -> None:
    """skorch clears the gradients before a step, not inside its closure; the samples of a step are averaged all the same."""
    net = skorch_net(spec)
    net.initialize()
    model = nn.Linear(3, 1)
    model.load_state_dict(net.module_.state_dict())
    torch.manual_seed(3)
    net.partial_fit(X.numpy().astype(np.float32), Y.numpy().astype(np.float32))
    torch.manual_seed(3)
    opt = spec.make(model.parameters(), num_data=N, samples=2)
    for _ in range(3):
        torch.empty((), dtype=torch.int64).random_()  # as every new iterator of a DataLoader draws
        for i in range(0, N, 8):

            def closure(i: int = i) -> torch.Tensor:
                opt.zero_grad()
                loss = nn.functional.mse_loss(model(X[i : i + 8]), Y[i : i + 8])
                loss.backward()
                return loss

            opt.step(closure)
    assert same([p.detach() for p in net.module_.parameters()], [p.detach() for p in model.parameters()])


@covers("skorch", "by name, two samples a step", refuses=True)
@pytest.mark.parametrize("spec", [s for s in SPECS if s.needs_attach], ids=str)
def test_skorch_and_vogn(spec: Spec) -> None:
    """skorch builds the optimizer by itself, from parameters alone: VOGN asks for the model."""
    with pytest.raises(RuntimeError, match=r"call opt.attach\(model\) once"):
        skorch_net(spec).fit(X.numpy(), Y.numpy())


@covers("skorch", "by name, two samples a step", refuses=True)
@SECOND_ORDER
def test_skorch_calls_backward(spec: Spec) -> None:
    with pytest.raises(RuntimeError, match=r"return the loss and do not call backward\(\)"):
        skorch_net(spec).fit(X.numpy(), Y.numpy())
