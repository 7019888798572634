"""Coverage-guided fuzzing of the codec: ``make fuzz`` (see README.md)."""
