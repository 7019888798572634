"""What a body is, judged from its first bytes: 11-quirks section A."""

from __future__ import annotations

import pytest

from svir_core import opening
from svir_core.errors import ResponseLimitError
from svir_core.opening import Judged, Opening, Shape

BODIES: list[tuple[bytes, Shape, int, bytes]] = [
    (b"data: a\n\n", Shape.STREAM, 0, b"data: a\n\n"),
    (b"\xef\xbb\xbfdata: a", Shape.STREAM, 3, b"data: a"),
    (b"\xef\xbbdata: a", Shape.STREAM, 0, b"\xef\xbbdata: a"),
    (b"\n\r\n: a", Shape.STREAM, 3, b": a"),
    (b"\n \n: a", Shape.STREAM, 1, b" \n: a"),
    (b"  data", Shape.STREAM, 0, b"  data"),
    (b"", Shape.STREAM, 0, b""),
    (b"\n\n", Shape.STREAM, 2, b""),
    (b" \n", Shape.STREAM, 0, b" \n"),
    (b"\xef", Shape.STREAM, 0, b"\xef"),
    (b"\x1f", Shape.STREAM, 0, b"\x1f"),
    (b"\x1f x", Shape.STREAM, 0, b"\x1f x"),
    (b"<html>", Shape.PAGE, 0, b"<html>"),
    (b"\xef\xbb\xbf\n <" + b"x" * 300, Shape.PAGE, 5, b"<" + b"x" * 199),
    (b" \x1f\x8b\x08", Shape.COMPRESSED, 1, b"\x1f\x8b\x08"),
    (b'{"a": {"b": "}"}} rest', Shape.DOCUMENT, 0, b'{"a": {"b": "}"}}'),
    (b"\n[1, [2]]\n", Shape.DOCUMENT, 1, b"[1, [2]]"),
    (b'{"a": ', Shape.DOCUMENT, 0, b'{"a": '),
]


def judge(data: bytes, stride: int) -> Judged:
    """What ``data`` is, and, of a stream, everything in it."""
    one = Opening(blank_limit=100)
    judged: Judged | None = None
    for start in range(0, len(data), stride):
        piece = data[start : start + stride]
        if judged is None:
            judged = one.push(piece)
        elif judged.shape is Shape.STREAM:
            judged = Judged(judged.shape, judged.offset, judged.data + piece)
    return judged or one.finish()


@pytest.mark.parametrize(("data", "shape", "offset", "held"), BODIES)
def test_shapes(data: bytes, shape: Shape, offset: int, held: bytes) -> None:
    for stride in (1, 2, 3, 1000):
        assert judge(data, stride) == Judged(shape, offset, held)


@pytest.mark.parametrize("end", [b"<", b"\x1f\x8b", b"{}", b"d"])
@pytest.mark.parametrize("stride", [1, 7, 1000])
def test_blank_bytes_are_bounded(end: bytes, stride: int) -> None:
    assert judge(b" " * 100 + end, stride).offset in (0, 100)
    with pytest.raises(ResponseLimitError, match="blank"):
        judge(b" " * 101 + end, stride)


@pytest.mark.parametrize("stride", [1, 7, 1000])
def test_documents_are_bounded(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "DOCUMENT_BYTES", 50)
    assert judge(b"[" + b" " * 48 + b"] more" + b" " * 50, stride).shape is Shape.DOCUMENT
    with pytest.raises(ResponseLimitError, match="50 bytes"):
        judge(b"[" + b" " * 49 + b"]", stride)


@pytest.mark.parametrize("stride", [1, 2, 3, 1000])
def test_half_of_gzips_magic_before_blank_bytes_is_a_stream(stride: int) -> None:
    body = b" \x1f" + b"\n" * 200
    assert judge(body, stride) == Judged(Shape.STREAM, 0, body)
