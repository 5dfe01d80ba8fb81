"""What belongs to one job: its folder, and the reasoning over all of its ranks and hosts."""
