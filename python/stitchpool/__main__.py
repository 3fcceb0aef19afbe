"""The `stitchpool` command: `python -m stitchpool info`."""

import signal
import sys

from . import _native


def main() -> int:
    # The command runs outside of the interpreter, where nobody would look at a pending KeyboardInterrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.command(["stitchpool", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
