"""Everything that meets the outside: commands, the sidecar, reports, and the reasoning over whole jobs."""
