"""The process of `lgm`, and of `python -m lgmdsl`: an interrupt ends it with a message and status
130 whenever it comes, while modules are still being imported too."""

import signal
import sys


def main() -> int:
    """Run the command line of this process; the exit status."""
    try:
        from lgmdsl.cli.main import main as command_line

        status = command_line()
    except KeyboardInterrupt:  # of a running command `command_line` says so itself
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one is enough
        from lgmdsl.cli import failures
        from lgmdsl.cli.exit_status import INTERRUPTED

        failures.interrupted("--json" in sys.argv[1:])
        status = INTERRUPTED
    # Nothing is left to say: an interrupt from now on ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status


if __name__ == "__main__":
    sys.exit(main())
