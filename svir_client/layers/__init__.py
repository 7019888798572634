"""Layers: steps around the provider-neutral call, the first given is the outermost (30 section 3)."""

from svir_client.layers.chain import Next
from svir_client.layers.layer import Layer, wrap

__all__ = (
    # what a layer is
    "Layer",
    "Next",
    "wrap",
)
