"""Generations: a model is asked, its calls are run, until it has nothing more to ask (50, Loop)."""

from svir_client.generation.input import Input
from svir_client.generation.options import ResumeOptions, TurnOptions
from svir_client.generation.progress import progress_of
from svir_client.generation.run import generate, generate_stream, resume, resume_stream
from svir_client.generation.stream import GenerationStream, GenerationTextStream
from svir_core.generation_event import GenerationEvent, RoundEvent, RoundResults

__all__ = (
    "GenerationEvent",
    "GenerationStream",
    "GenerationTextStream",
    "Input",
    "ResumeOptions",
    "RoundEvent",
    "RoundResults",
    "TurnOptions",
    "generate",
    "generate_stream",
    "progress_of",
    "resume",
    "resume_stream",
)
