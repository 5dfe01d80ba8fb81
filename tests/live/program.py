"""`aidiag` from these sources, whatever the working directory: `python tests/live/program.py COMMAND...`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if __name__ == "__main__":
    from aidiag.diagnose.cli import main

    main()
