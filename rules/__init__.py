"""Rules: they judge samples and events, and touch nothing."""
