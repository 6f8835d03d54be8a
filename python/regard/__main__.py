"""The program: `regard …`, or `python -m regard …`."""

from __future__ import annotations

import signal
import sys

from . import _regard


def main() -> None:
    """Runs the program with the arguments of the command line."""
    # As a program of its own it handles Ctrl-C itself, or ends by it; where Ctrl-C is ignored (nohup), it stays so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_regard.main(["regard", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
