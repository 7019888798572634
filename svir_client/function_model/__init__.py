"""A function as a model: an ``AsyncClient`` whose answers are made in this process (30 section 7)."""

from svir_client.function_model.events import ModelAnswer, ModelFunction
from svir_client.function_model.model import FunctionModel

__all__ = ("FunctionModel", "ModelAnswer", "ModelFunction")
