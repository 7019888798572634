"""Layers: steps around the provider-neutral call, the first given is the outermost (30 section 3)."""

from svir_client.layers.attempt import Until
from svir_client.layers.chain import Next
from svir_client.layers.fallback import Fallback
from svir_client.layers.layer import Layer, wrap
from svir_client.layers.limit import Limit
from svir_client.layers.retry import Retry
from svir_client.layers.timeout import Timeout

__all__ = (
    # what a layer is
    "Layer",
    "Next",
    "wrap",
    # those that are there
    "Fallback",
    "Limit",
    "Retry",
    "Timeout",
    "Until",
)
