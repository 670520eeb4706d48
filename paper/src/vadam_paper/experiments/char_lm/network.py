"""The language model of torch-rnn: embedding, LSTM layers, a linear layer to the logits of the next character."""

import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor]


class LanguageModel(nn.Module):
    """A character-level LSTM language model, initialised as torch-rnn's.

    LSTM weights are N(0, 1/(inputs + units)), biases 0, biases of the forget gates 1, embeddings N(0, 1). torch's LSTM
    has two biases that are added; the second stays at zero.
    """

    def __init__(self, characters: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, characters)
        for layer in range(layers):
            inputs = embedding if layer == 0 else hidden
            for name in ("ih", "hh"):
                nn.init.normal_(getattr(self.lstm, f"weight_{name}_l{layer}"), std=(inputs + hidden) ** -0.5)
                nn.init.zeros_(getattr(self.lstm, f"bias_{name}_l{layer}"))
            with torch.no_grad():
                getattr(self.lstm, f"bias_ih_l{layer}")[hidden : 2 * hidden] = 1.0
            getattr(self.lstm, f"bias_hh_l{layer}").requires_grad_(False)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return logits [B, T, C] after each of the characters ``x`` [B, T], and the final state."""
        outputs, state = self.lstm(self.embed(x), state)
        return self.out(outputs), state


def detached(state: State) -> State:
    """Detach the state, where truncated back-propagation stops."""
    return state[0].detach(), state[1].detach()
