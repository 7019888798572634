"""Endurance: many streams at once against a server that does everything wrong, every answer judged by its script.

``python -m soak`` is the face; docs/soak.md says what is run and what it must show.
"""
