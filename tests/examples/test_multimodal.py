from __future__ import annotations

import base64
import pathlib
import zlib

import pytest

from examples import multimodal
from examples.multimodal import file, image, media, png
from examples.provider import PROVIDERS
from svir_client.testing import MockServer, Reply, ThreadedMockServer
from svir_core import Media, PathSource, TextFile
from tests.examples.program import Ended, refused, run


def ask(word: str, server: ThreadedMockServer, *arguments: str) -> Ended:
    return run("multimodal", word, "--base-url", server.origin, *arguments)


def written(folder: pathlib.Path, name: str, data: bytes = b"%PDF-1") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def test_without_an_argument_four_scripts_look_at_a_picture() -> None:
    said = [f"{word}: a picture of 16 by 16 pixels" for word in PROVIDERS]
    assert run("multimodal") == Ended(0, said, [])


def test_the_picture_is_one() -> None:
    data = png(3)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    start = data.index(b"IDAT") + 4
    length = int.from_bytes(data[start - 8 : start - 4])
    assert zlib.decompress(data[start : start + length]) == (b"\0" + b"\xff\x80\x00" * 3) * 3


@pytest.mark.parametrize(
    ("ending", "media_type"),
    [
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("JPEG", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("pdf", "application/pdf"),
        ("mp3", "audio/mpeg"),
        ("wav", "audio/wav"),
        ("mp4", "video/mp4"),
        ("webm", "video/webm"),
        ("dat", "application/octet-stream"),
    ],
)
def test_a_name_says_what_is_in_a_file(ending: str, media_type: str) -> None:
    assert image(f"a.{ending}").media_type == media_type
    assert media(f"a.{ending}").media_type == media_type
    assert file(f"a.{ending}") == Media(PathSource(f"a.{ending}"), media_type, f"a.{ending}")


def test_the_parts_are_in_the_order_in_which_they_were_named() -> None:
    chosen = multimodal.arguments(["openai", "--file", "a.txt", "--image", "b.png", "--file", "c.pdf"])
    assert chosen.parts == [file("a.txt"), image("b.png"), file("c.pdf")]


def test_a_text_is_a_text() -> None:
    assert file("b/A.TXT") == TextFile.path("b/A.TXT")


@pytest.mark.parametrize("word", PROVIDERS)
def test_what_a_model_takes_is_sent(word: str, tmp_path: pathlib.Path) -> None:
    text = written(tmp_path, "a.txt", b"a text of mine")
    picture, paper = written(tmp_path, "b.png", png(2)), written(tmp_path, "c.pdf")
    with MockServer(Reply.text("Three things.", api=PROVIDERS[word].api)).in_thread() as server:
        parts = ("--file", paper, "--image", picture, "--file", text, "--prompt", "What is it?")
        assert ask(word, server, *parts) == Ended(0, ["Three things."], [])
        (request,) = server.requests
    for part in (base64.b64encode(b"%PDF-1"), base64.b64encode(png(2)), b"a text of mine", b"What is it?"):
        assert part in request.body


@pytest.mark.parametrize(
    ("word", "arguments", "says"),
    [
        ("anthropic", ["--audio", "a.wav"], "is audio, and the model has no audio_input"),
        ("openai", ["--model", "mine", "--image", "a.png"], "is an image, and the model has no image_input"),
        ("gemini", ["--model", "mine", "--file", "a.mp4"], "is a video, and the model has no file_input"),
        ("openai", ["--model", "mine", "--can", "file_input", "--file", "a.mp4"], "video/mp4"),
        ("responses", ["--model", "mine", "--can", "audio_input", "--audio", "a.wav"], "takes PDF, not 'audio/wav'"),
        ("anthropic", ["--image", "a.dat"], "application/octet-stream"),
        ("gemini", ["--file", "none.pdf"], "'none.pdf' cannot be read (FileNotFoundError)"),
    ],
)
def test_what_is_not_taken_is_named_and_nothing_is_sent(
    word: str, arguments: list[str], says: str, tmp_path: pathlib.Path
) -> None:
    for name in ("a.wav", "a.png", "a.mp4", "a.dat"):
        written(tmp_path, name)
    given = [str(tmp_path / argument) if "." in argument else argument for argument in arguments]
    with MockServer().in_thread() as server:
        line = refused(multimodal.main, word, "--base-url", server.origin, *given)
        assert (server.requests, server.unscripted) == ((), 0)
    assert says in line


def test_a_refusal_is_one_line(tmp_path: pathlib.Path) -> None:
    with MockServer().in_thread() as server:
        ended = ask("anthropic", server, "--audio", written(tmp_path, "a.wav"))
    assert (ended.status, ended.said, len(ended.wrong)) == (1, [], 1)
    assert "is audio, and the model has no audio_input" in ended.wrong[0]


@pytest.mark.parametrize("arguments", [["openai"], ["--image", "a.png"], ["anthropic", "--prompt", "What?"]])
def test_something_to_look_at_and_somebody_to_ask_are_needed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        multimodal.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("name an API and at least one --image, --audio or --file")
