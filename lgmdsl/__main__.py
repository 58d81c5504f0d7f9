"""`python -m lgmdsl` is `lgm`."""

from lgmdsl.cli.main import main

if __name__ == "__main__":
    main()
