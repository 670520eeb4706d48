"""Text for character-level language models."""

from vadam_paper.data import formats
from vadam_paper.data.spec import Dataset, File, OnDisk

WAR_AND_PEACE_SHA256 = "fb66ba999dafe24017cdd59e04c56d385a9c8466993d374fd4c6f08b2142985e"
WAR_AND_PEACE_URL = "https://cs.stanford.edu/people/karpathy/char-rnn/warpeace_input.txt"

TEXT = (
    Dataset(
        name="war-and-peace",
        aliases=("war_and_peace", "warpeace_input"),
        task="text",
        n=3_258_246,
        d=87,
        sha256=WAR_AND_PEACE_SHA256,
        licence="public domain in the USA",
        address="https://www.gutenberg.org/ebooks/2600",
        on_disk=(
            OnDisk((File("text/war_and_peace.txt", WAR_AND_PEACE_SHA256, WAR_AND_PEACE_URL),), formats.raw_bytes),
            OnDisk((File("warpeace_input.txt", WAR_AND_PEACE_SHA256),), formats.raw_bytes),
        ),
        remark="n bytes, d distinct ones, byte-order mark and CRLF included; translated by L. and A. Maude",
    ),
)
