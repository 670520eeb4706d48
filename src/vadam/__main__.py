"""``python -m vadam``: the command line, where its script is not on the path."""

from vadam.cli import main

if __name__ == "__main__":
    main()
