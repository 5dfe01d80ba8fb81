"""`python -m aidiag.grafana`."""

from aidiag.grafana.generate import main

raise SystemExit(main())
