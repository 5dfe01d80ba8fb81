"""The event kinds of the log collector that the built-in rules use, for a tree that has no log collector yet."""
