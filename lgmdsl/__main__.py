"""`python -m lgmdsl` is `lgm`."""

import sys

from lgmdsl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
