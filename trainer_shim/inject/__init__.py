"""The folder that goes on PYTHONPATH: Python imports its `sitecustomize` at start. Nothing else may lie here."""
