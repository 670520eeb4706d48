"""Parts of sentences: numbers with their nouns, and the first of many texts."""


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, as "1 row" and "7 rows"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_three(texts: list[str]) -> str:
    """Return up to three texts, in quotes, and an ellipsis if there are more."""
    return ", ".join(map(repr, texts[:3])) + (", …" if len(texts) > 3 else "")
