"""What a tool raises to say something to the model."""

from __future__ import annotations


class ToolError(Exception):
    """Raised by a tool: its text is the result that the model sees, flagged as an error.

    The text of every other exception stays here: it may hold a path, a key, a row of a database.
    """
