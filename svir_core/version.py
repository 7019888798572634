"""The version: one for all distributions; a test compares it with every ``pyproject.toml``."""

VERSION = "0.1.0"
