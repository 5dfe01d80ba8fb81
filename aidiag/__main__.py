"""`python -m aidiag` is the `aidiag` command."""

from aidiag.diagnose.cli import main

if __name__ == "__main__":
    main()
