"""The wire APIs: one package each, with ``encode``, ``decode``, ``table`` and ``server``."""
