"""Models as data: what each can do and how much it holds, and the habits of requests to it (50, Catalogue)."""

from svir_client.models.capability import TEXT, Capability
from svir_client.models.catalogue import CATALOGUE, find
from svir_client.models.descriptor import ModelDescriptor
from svir_client.models.local import local
from svir_client.models.merge import merge_extra

__all__ = (
    # what a model is
    "TEXT",
    "Capability",
    "ModelDescriptor",
    "local",
    # what is known of some
    "CATALOGUE",
    "find",
    # what its further fields become
    "merge_extra",
)
