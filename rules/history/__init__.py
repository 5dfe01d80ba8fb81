"""What is remembered of samples and events: bounded, and honest about gaps."""
