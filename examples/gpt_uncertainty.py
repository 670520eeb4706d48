"""A character GPT on War and Peace, trained by the Hugging Face Trainer with nothing but its optimizer changed.

    python examples/gpt_uncertainty.py --out gpt-uncertainty

trains (about ten minutes on one core), then shows how uncertain the network was about each character before it saw it:
every character is coloured by the mutual information between the prediction and the weights, the part of the uncertainty
that more text could remove. The passage is from the end of the book, which was not trained on; below it stands text of another
kind. Writes ``posterior.safetensors``, ``uncertainty.json`` and ``uncertainty.html``. The novel comes with ``pip install ./paper``;
``--text FILE`` trains on another one.
"""

from __future__ import annotations

import argparse
import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import vadam

OTHER_TEXT = {
    "Not in the book, but in its manner": (
        "Prince Andrew looked at Pierre in silence, and the old countess, who had not heard a word of it, smiled at him."
    ),
    "French, of which the book has some": (
        "Eh bien, mon prince, il faut que je vous dise que la guerre est une chose bien cruelle et que personne ne "
        "veut la faire."
    ),
    "Python, of which it has none": (
        "for x, y in loader: loss = mse_loss(net(x), y); loss.backward(); opt.step(); print(f'{loss.item():.3f}')"
    ),
}


@dataclass(frozen=True)
class Alphabet:
    characters: str

    def encode(self, text: str) -> Tensor:
        """Numbers of the characters; one that the alphabet has not is read as a blank."""
        blank = self.characters.index(" ")
        number = {c: i for i, c in enumerate(self.characters)}
        return torch.tensor([number.get(c, blank) for c in text])


class Windows(torch.utils.data.Dataset):
    """The text cut into windows; the Trainer shifts the labels by itself."""

    def __init__(self, tokens: Tensor, length: int) -> None:
        self.windows = tokens[: len(tokens) // length * length].view(-1, length)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {"input_ids": self.windows[i], "labels": self.windows[i]}


class Logits(nn.Module):
    """The network as ``vadam.predict`` asks for it: one tensor out."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, tokens: Tensor) -> Tensor:
        return self.gpt(input_ids=tokens, use_cache=False).logits


def network(alphabet: Alphabet, *, length: int, width: int, layers: int) -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        vocab_size=len(alphabet.characters), n_positions=length, n_embd=width, n_layer=layers, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def train(model: nn.Module, data: Windows, chosen: argparse.Namespace) -> vadam.Vadam:
    """Train the model with Vadam.

    Vadam squares the mean gradient of all characters of a minibatch. For n characters this is about n times smaller than the
    mean of their squared gradients (Theorem 1 of the paper). ``num_data`` is multiplied by n to compensate.
    """
    num_data = data.windows.numel() * chosen.batch * chosen.length
    opt = vadam.Vadam(
        model.parameters(), lr=chosen.lr, betas=(0.9, 0.99), num_data=num_data, prior_precision=chosen.prior_precision,
        init_precision=chosen.init_precision,
    )  # fmt: skip
    arguments = transformers.TrainingArguments(
        output_dir=str(chosen.out), max_steps=chosen.steps, per_device_train_batch_size=chosen.batch, logging_steps=100,
        warmup_steps=chosen.steps // 20, save_strategy="no", report_to=[], use_cpu=True, seed=chosen.seed, disable_tqdm=True,
    )  # fmt: skip
    transformers.Trainer(model=model, args=arguments, train_dataset=data, optimizers=(opt, None)).train()
    return opt


def uncertainty(
    model: nn.Module, post: Any, tokens: Tensor, length: int, *, samples: int, seed: int
) -> dict[str, list[float]]:
    """Return mutual information, entropy and negative log-probability of each character but the first, in nats.

    A text that is longer than the network's window is read in windows that overlap by half: all that is shown after the first has
    at least half a window before it.
    """
    half = length // 2
    windows = tokens[None] if len(tokens) <= length else tokens.unfold(0, length, half)
    pred = vadam.predict(
        model, post, windows[:, :-1], samples=samples, likelihood=vadam.Categorical(),
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    surprise = -pred.probs.gather(2, windows[:, 1:, None]).log()[..., 0]
    values = {"mutual_information": pred.mutual_information, "entropy": pred.entropy, "surprise": surprise}
    in_a_row = {name: torch.cat([value[0], value[1:, half - 1 :].flatten()]) for name, value in values.items()}
    return {name: [round(v, 5) for v in value.tolist()] for name, value in in_a_row.items()}


def coloured(text: str, information: list[float], brightest: float) -> str:
    """Return the text as HTML; the background of a character is stronger the larger its value."""

    def character(c: str, value: float) -> str:
        strength = min(1.0, max(0.0, value / brightest))
        return (
            f'<span style="background:rgba(224,83,61,{strength:.2f})" title="{value:.3f} nats">{html.escape(c)}</span>'
        )

    shown = [html.escape(text[0]), *(character(c, v) for c, v in zip(text[1:], information, strict=True))]
    return f'<p class="coloured-text">{"".join(shown)}</p>'


def page(passages: list[dict[str, Any]], brightest: float) -> str:
    blocks = []
    for passage in passages:
        information = passage["mutual_information"]
        mean = sum(information) / len(information)
        caption = f"{html.escape(passage['title'])}: {mean:.3f} nats a character on average"
        blocks.append(f"<figcaption>{caption}</figcaption>\n{coloured(passage['text'], information, brightest)}")
    ends = " ".join(
        coloured("  ", [brightest * k / 4], brightest).replace("<p", "<i").replace("</p", "</i") for k in range(5)
    )
    legend = f"<figcaption>0 {ends} {brightest:.2f} nats of mutual information</figcaption>"
    return '<figure class="gpt-uncertainty">\n' + "\n".join([*blocks, legend]) + "\n</figure>\n"


STYLE = """<style>
.gpt-uncertainty { max-width: 46rem; margin: 1rem 0; }
.gpt-uncertainty figcaption { font-size: .85rem; margin-top: .8rem; opacity: .8; }
.coloured-text { font-family: ui-monospace, monospace; white-space: pre-wrap; line-height: 1.6; margin: .2rem 0; }
</style>
"""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpt-uncertainty"))
    parser.add_argument(
        "--data", type=Path, default=None, help="folder of the data sets (default: VADAM_DATA, or a download)"
    )
    parser.add_argument("--text", type=Path, default=None, help="a text to train on instead of the novel")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128, help="characters in a window")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--prior-precision", type=float, default=2500.0, help="of GPT-2's first weights: 1/0.02²")
    parser.add_argument("--init-precision", type=float, default=1e5)
    parser.add_argument("--samples", type=int, default=32, help="draws of the weights for a prediction")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def novel(folder: Path | None) -> bytes:
    """Return War and Peace, from the folder, VADAM_DATA, the cache or the network."""
    try:
        from vadam_paper.data import load
    except ImportError as error:
        raise SystemExit("The novel comes with vadam-paper: pip install ./paper, or give --text FILE.") from error
    return load("war-and-peace", folder).content


def main(arguments: list[str] | None = None) -> None:
    chosen = options(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    transformers.set_seed(chosen.seed)
    book = (chosen.text.read_bytes() if chosen.text else novel(chosen.data)).decode("utf-8-sig").replace("\r\n", "\n")
    alphabet = Alphabet("".join(sorted(set(book))))
    cut = len(book) * 9 // 10
    model = network(alphabet, length=chosen.length, width=chosen.width, layers=chosen.layers)
    opt = train(model, Windows(alphabet.encode(book[:cut]), chosen.length), chosen)
    logits = Logits(model)
    post = opt.posterior(logits)
    vadam.save(chosen.out / "posterior.safetensors", post, config={"alphabet": alphabet.characters})

    start = book.index("\n\n", cut) + 2
    shown = book[start : start + 4 * chosen.length].replace("\n", " ")
    texts = {"War and Peace, from the part that was not trained on": shown}
    texts |= {title: text[: chosen.length] for title, text in OTHER_TEXT.items()}
    passages = []
    for title, text in texts.items():
        values = uncertainty(
            logits, post, alphabet.encode(text), chosen.length, samples=chosen.samples, seed=chosen.seed
        )
        passages.append({"title": title, "text": text, **values})
        means = ", ".join(f"{name} {sum(value) / len(value):.3f}" for name, value in values.items())
        print(f"{title}: {means}")
    (chosen.out / "uncertainty.json").write_text(json.dumps(passages, indent=1))
    every = sorted(v for passage in passages for v in passage["mutual_information"])
    figure = page(passages, brightest=every[len(every) * 95 // 100])
    (chosen.out / "uncertainty.html").write_text(STYLE + figure)
    print(f"see {chosen.out / 'uncertainty.html'}")


if __name__ == "__main__":
    main()
