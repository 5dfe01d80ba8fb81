"""From rule files to rules: YAML with places, checks, cache."""
