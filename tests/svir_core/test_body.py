import base64
import io
import tracemalloc
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import body as bodies
from svir_core.body import Attachment, Body, BodyWriter, Form, Measured
from svir_core.errors import AttachmentError, ConfigError, UnsupportedError
from svir_core.message import BytesSource, Image, Media, Message, PathSource, Text, TextFile, ToolResult, UrlSource
from svir_core.request import Request

MIB = 1024 * 1024


class Disk:
    """Files by path, as core's injected ``read`` sees them; counts what is open."""

    def __init__(self, files: Mapping[str, bytes], most: int = MIB) -> None:
        self.files = dict(files)
        self.opened = 0
        self.open_now = 0
        self.most = most

    @contextmanager
    def read(self, path: str) -> Generator["Reader", None, None]:
        if path not in self.files:
            raise FileNotFoundError(2, "a secret folder", path)
        self.opened += 1
        self.open_now += 1
        try:
            yield Reader(self.files[path], self.most)
        finally:
            self.open_now -= 1


class Reader:
    """Gives at most ``most`` bytes at once, as a raw file may."""

    def __init__(self, data: bytes, most: int) -> None:
        self.file = io.BytesIO(data)
        self.most = most

    def read(self, size: int, /) -> bytes:
        return self.file.read(min(size, self.most))


def on_disk(data: bytes, *, form: Form = Form.BASE64, length: int | None = None) -> Body:
    """A body of one file, planned as if ``data`` had been measured."""
    encoded = base64.b64encode(data) if form is Form.BASE64 else orjson.dumps(data.decode())[1:-1]
    writer = BodyWriter()
    planned = len(encoded) if length is None else length
    attachment = Attachment("messages[0].parts[0]", PathSource("/secret/f"), form, len(data), planned)
    writer.write(b'"', attachment, b'"')
    return writer.body()


def produced(body: Body, block_bytes: int, disk: Disk) -> tuple[int, AttachmentError]:
    """How many bytes came before the error, and the error."""
    count = 0
    try:
        for block in body.blocks(block_bytes, disk.read):
            count += len(block)
    except AttachmentError as error:
        return count, error
    pytest.fail("a body was produced whole")


@given(
    st.lists(st.binary() | st.text(), max_size=5),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_any_block_size_gives_the_same_bytes_of_the_declared_length(
    items: list[bytes | str], block_bytes: int, most: int
) -> None:
    files: dict[str, bytes] = {}
    measured: dict[str, Measured] = {}
    memory, disk, expected = BodyWriter(), BodyWriter(), b""
    for number, item in enumerate(items):
        path = f"f{number}"
        memory.write(b"literal<")
        disk.write(b"literal", b"<")
        expected += b"literal<"
        if isinstance(item, bytes):
            encoded = base64.b64encode(item)
            files[path], measured[path] = item, Measured(len(item))
            memory.write(bodies.binary(BytesSource(item), path, None))
            disk.write(bodies.binary(PathSource(path), path, measured))
        else:
            encoded = orjson.dumps(item)[1:-1]
            files[path], measured[path] = item.encode(), Measured(len(item.encode()), len(encoded))
            memory.write(bodies.text(TextFile.data(item, path), path, None))
            disk.write(bodies.text(TextFile.path(path), path, measured))
        expected += encoded
    in_memory, from_disk, reader = memory.body(), disk.body(), Disk(files, most)
    assert bytes(in_memory) == expected
    assert in_memory.length == from_disk.length == len(expected)
    assert from_disk.on_disk == bool(items)
    assert not in_memory.on_disk
    for _ in range(2):
        for body in (in_memory, from_disk):
            blocks = list(body.blocks(block_bytes, reader.read))
            assert all(blocks)
            assert b"".join(blocks) == expected
    assert b"".join(from_disk.blocks(read=reader.read)) == expected
    assert reader.open_now == 0


@pytest.mark.parametrize("block_bytes", [1, 3, 1000])
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    ("measured", "now", "what"),
    [
        (b"abcdef", b"abcde", "shrank"),
        (b"abcdef", b"", "shrank"),
        (b"abcdef", b"abcdefg", "grew"),
        (b"", b"a", "grew"),
    ],
)
def test_a_file_that_changed_size_is_an_error_on_every_production(
    measured: bytes, now: bytes, what: str, form: Form, block_bytes: int
) -> None:
    body, disk = on_disk(measured, form=form), Disk({"/secret/f": now})
    for _ in range(2):
        given_bytes, error = produced(body, block_bytes, disk)
        assert str(error) == f"messages[0].parts[0]: 'f' {what} since it was measured"
        assert given_bytes < body.length
        assert error.__context__ is None
        assert disk.open_now == 0


@pytest.mark.parametrize("block_bytes", [1, 3, 6, 1000])
@pytest.mark.parametrize(
    ("now", "length", "what"),
    [
        (b'"b"d', 4, "encodes to another length"),  # two more than planned
        (b"abcd", 5, "encodes to another length"),  # one fewer
        (b"ab\xffd", 4, "is not UTF-8"),
        (b"abc\xc3", 4, "is not UTF-8"),  # cut inside a character
        (b'""""', 4, "encodes to another length"),
    ],
)
def test_a_text_that_is_not_what_was_planned(now: bytes, length: int, what: str, block_bytes: int) -> None:
    body, disk = on_disk(b"abcd", form=Form.TEXT, length=length), Disk({"/secret/f": now})
    for _ in range(2):
        given_bytes, error = produced(body, block_bytes, disk)
        assert f"'f' {what}" in str(error)
        assert given_bytes < body.length
        assert error.__context__ is None
        assert disk.open_now == 0


def test_base64_that_would_end_short_of_the_plan() -> None:
    body = on_disk(b"abcde", length=12)
    with pytest.raises(AttachmentError, match="another length"):
        list(body.blocks(read=Disk({"/secret/f": b"abcde"}).read))


def test_a_file_that_cannot_be_opened_or_read() -> None:
    body = on_disk(b"abc")
    with pytest.raises(AttachmentError) as caught:
        list(body.blocks(read=Disk({}).read))
    assert str(caught.value) == "messages[0].parts[0]: 'f' cannot be read (FileNotFoundError)"
    assert "secret" not in repr(caught.value)
    assert caught.value.__context__ is None

    class Broken(Disk):
        @contextmanager
        def read(self, path: str) -> Generator[Reader, None, None]:
            with super().read(path) as reader:
                reader.file.close()  # reading a closed file is a ValueError
                yield reader

    broken = Broken({"/secret/f": b"abc"})
    with pytest.raises(AttachmentError, match=r"cannot be read \(ValueError\)"):
        list(body.blocks(read=broken.read))
    assert broken.open_now == 0


def test_closing_the_blocks_closes_the_file() -> None:
    disk = Disk({"/secret/f": bytes(100)})
    blocks = on_disk(bytes(100)).blocks(3, disk.read)
    next(blocks)
    next(blocks)
    assert disk.open_now == 1
    blocks.close()
    assert disk.open_now == 0
    assert list(blocks) == []


def test_nothing_is_opened_before_it_is_asked_for() -> None:
    disk = Disk({"/secret/f": b"abc"})
    blocks = on_disk(b"abc").blocks(read=disk.read)
    assert next(blocks) == b'"'
    assert disk.opened == 0
    blocks.close()


def test_a_body_on_disk_needs_something_to_read_it_with() -> None:
    body = on_disk(b"abc")
    assert body.on_disk
    with pytest.raises(AttachmentError, match="lies on disk"):
        bytes(body)
    with pytest.raises(AttachmentError, match="lies on disk"):
        body.blocks()


@pytest.mark.parametrize("block_bytes", [0, -1, True, 1.5, None])
def test_a_block_size_is_a_positive_integer(block_bytes: int) -> None:
    with pytest.raises(ConfigError, match="block_bytes"):
        Body(()).blocks(block_bytes)


def test_an_empty_body() -> None:
    assert BodyWriter().body() == Body(())
    assert bytes(Body(())) == b""
    assert Body(()).length == 0


def test_a_body_is_compared_by_value_and_withholds_its_bytes() -> None:
    assert on_disk(b"abc") == on_disk(b"abc")
    assert on_disk(b"abc") != on_disk(b"abd1")
    assert repr(Body((b"secret",))) == "Body(length=6)"
    assert attrs.evolve(Body((b"ab",)), segments=(b"abc",)).length == 3


def test_large_attachments_in_memory_are_not_copied_whole() -> None:
    data = b"x" * (48 * MIB)
    tracemalloc.start()
    try:
        writer = BodyWriter()
        writer.write(b"<", bodies.binary(BytesSource(data), "image", None))
        writer.write(bodies.text(TextFile(BytesSource(data), "t"), "text", None), b">")
        body = writer.body()
        assert sum(map(len, body.blocks())) == body.length
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB  # orjson reserves eight times a block of text while it escapes it


# --- planning ------------------------------------------------------------------------------------


def test_every_attachment_of_a_request_is_found_with_its_place() -> None:
    image, file, media = Image.path("a.png"), TextFile.path("b.txt"), Media.path("c.pdf")
    request = Request("m").message(
        Message.user("text", image, media),
        Message.tool(ToolResult("1", "text"), ToolResult("2", [Text("x"), file, image])),
    )
    assert list(bodies.attachments(request)) == [
        ("messages[0].parts[1]", image),
        ("messages[0].parts[2]", media),
        ("messages[1].parts[1].content[1]", file),
        ("messages[1].parts[1].content[2]", image),
    ]


def test_a_url_is_no_attachment() -> None:
    source = UrlSource("https://secret.example/x")
    plans: list[Callable[[], Attachment]] = [
        lambda: bodies.binary(source, "here", None),
        lambda: bodies.text(TextFile(source, "x"), "here", None),
    ]
    for plan in plans:
        with pytest.raises(UnsupportedError, match=r"^here: the API takes no URL") as caught:
            plan()
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("measured", [None, {}, {"/secret/other": Measured(3, 3)}])
def test_a_file_that_nobody_measured(measured: dict[str, Measured] | None) -> None:
    plans: list[Callable[[], Attachment]] = [
        lambda: bodies.binary(PathSource("/secret/f"), "here", measured),
        lambda: bodies.text(TextFile.path("/secret/f"), "here", measured),
    ]
    for plan in plans:
        with pytest.raises(AttachmentError, match=r"^here: 'f' was not measured$"):
            plan()


def test_a_text_file_measured_without_its_length() -> None:
    with pytest.raises(AttachmentError, match="measured without its length"):
        bodies.text(TextFile.path("f"), "here", {"f": Measured(3)})


@pytest.mark.parametrize(
    ("escaped", "declared", "planned"),
    [
        (None, 3, 3),
        (None, 18, 18),
        (None, 2, None),  # fewer than its bytes
        (None, 19, None),  # more than six for each byte
        (None, -1, None),
        (4, None, 4),
        (4, 4, 4),
        (4, 5, None),
    ],
)
def test_a_declared_length_on_disk(escaped: int | None, declared: int | None, planned: int | None) -> None:
    part = TextFile(PathSource("f"), "f", declared)
    measured = {"f": Measured(3, escaped)}
    if planned is None:
        with pytest.raises(AttachmentError, match="another length than declared"):
            bodies.text(part, "here", measured)
    else:
        assert bodies.text(part, "here", measured).length == planned


def test_a_text_in_memory_is_checked_when_it_is_planned() -> None:
    assert bodies.text(TextFile(BytesSource(b'a"\n'), "f", 5), "here", None).length == 5
    with pytest.raises(AttachmentError, match="here: the attachment encodes to another length than declared"):
        bodies.text(TextFile(BytesSource(b'a"\n'), "f", 4), "here", None)
    with pytest.raises(AttachmentError, match="here: the attachment is not UTF-8") as caught:
        bodies.text(TextFile(BytesSource(b"secret\xff"), "f"), "here", None)
    assert caught.value.__context__ is None
