"""The sinks, a file each."""
