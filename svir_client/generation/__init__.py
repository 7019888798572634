"""Generations: a model is asked, its calls are run, until it has nothing more to ask (50, Loop)."""

from svir_client.generation.event import GenerationEvent, RoundEvent, RoundResults
from svir_client.generation.progress import progress_of
from svir_client.generation.run import generate, generate_stream, resume, resume_stream
from svir_client.generation.stream import GenerationStream, GenerationTextStream

__all__ = (
    "GenerationEvent",
    "GenerationStream",
    "GenerationTextStream",
    "RoundEvent",
    "RoundResults",
    "generate",
    "generate_stream",
    "progress_of",
    "resume",
    "resume_stream",
)
