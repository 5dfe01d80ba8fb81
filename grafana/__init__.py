"""Dashboards, alerts and runbooks, and the code that makes them from the registry and the rules."""
