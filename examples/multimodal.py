"""Pictures, sound and files beside the question: what the model or its API cannot take is refused, and nothing is sent.

python -m examples.multimodal                                                   # four scripts look at a picture
python -m examples.multimodal gemini --image a.png --audio b.mp3 --file c.pdf --prompt "What have they in common?"
python -m examples.multimodal openai --base-url http://127.0.0.1:1234 --model qwen3-vl --can image_input --image a.png
"""

from __future__ import annotations

import argparse
import base64
import re
import struct
import zlib

import attrs

from examples.provider import PROVIDERS, Provider, connect, model_of, parsed, parser, run, words
from svir_client import Client, ModelDescriptor
from svir_client.models import CATALOGUE
from svir_client.sync import generate
from svir_client.testing import MockServer, RecordedRequest, Reply
from svir_core import Image, Media, TextFile

UNKNOWN = "application/octet-stream"


def image(path: str) -> Image:
    """A picture, of the type that its name ends with."""
    part = Image.path(path)
    return attrs.evolve(part, media_type=part.media_type or UNKNOWN)


def media(path: str) -> Media:
    """Sound, or another file."""
    part = Media.path(path)
    return attrs.evolve(part, media_type=part.media_type or UNKNOWN)


def file(path: str) -> TextFile | Media:
    """A text goes into the prompt under its name, all else as it is."""
    return TextFile.path(path) if path.lower().endswith(".txt") else media(path)


def arguments(given: list[str]) -> argparse.Namespace:
    """The command line, checked. The parts are in the order in which they were named."""
    options = parser("multimodal", "Ask a model about pictures, sound and files.")
    for name, make in (("--image", image), ("--audio", media), ("--file", file)):
        options.add_argument(name, metavar="PATH", action="append", type=make, dest="parts", help="may come again")
    options.add_argument(
        "--prompt", metavar="TEXT", type=words, default="Describe what you are given.", help="what to ask"
    )
    chosen = parsed(options, given)
    if (chosen.api is None) is not (chosen.parts is None):
        options.error("name an API and at least one --image, --audio or --file; or nothing, for a script's answers")
    return chosen


def ask(client: Client, model: ModelDescriptor, prompt: str, *parts: Image | TextFile | Media) -> str:
    """The answer. ``UnsupportedError`` names the part that the model or its API does not take."""
    return generate(client, None, (*parts, prompt), model=model).text


def png(size: int) -> bytes:
    """A small orange square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\x80\0" * size) * size
    chunks = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def scripted(provider: Provider) -> str:
    """What a script says that looks for the picture in what it is sent."""

    def look(request: RecordedRequest) -> Reply:
        found = re.search(rb"iVBORw0KGgo[A-Za-z0-9+/]*=*", request.body)
        width, height = struct.unpack(">II", base64.b64decode(found[0])[16:24]) if found else (0, 0)
        return Reply.text(f"a picture of {width} by {height} pixels", api=provider.api)

    model = attrs.evolve(CATALOGUE[provider.model], api=provider.api.name)
    with MockServer(answer=look).in_thread() as server, provider.connect(server.origin) as client:
        return ask(client, model, "What is this?", Image.data(png(16), "image/png"))


def main(given: list[str]) -> None:
    """See the module's text."""
    options = arguments(given)
    if options.api is None:
        for word, provider in PROVIDERS.items():
            print(f"{word}: {scripted(provider)}")
        return
    with connect(options) as client:
        print(ask(client, model_of(options), options.prompt, *options.parts))


if __name__ == "__main__":
    run(main)
