"""The program: `regard …`, or `python -m regard …`."""

from __future__ import annotations

import signal
import sys

from . import _regard


def main() -> None:
    """Runs the program with the arguments of the command line."""
    # The program handles Ctrl-C itself, or is ended by it; if SIGINT is ignored (nohup), it stays ignored.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_regard.main(["regard", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
