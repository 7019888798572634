"""What is shipped is what is tested: each wheel is built, installed alone, and does its job (00 section 1).

No index is asked: an environment holds the wheel and, copied from this one, exactly what its
metadata asks for, and nothing else.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = {
    "svir-core": "svir_core",
    "svir-transport-h11": "svir_transport/h11",
    "svir-transport-httpx": "svir_transport/httpx",
    "svir-client": "svir_client",
}

SERVER = """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.reply("application/json", b'{"data": [{"id": "m"}]}')
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.reply("text/event-stream", STREAM)
    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
PORT = server.server_address[1]
"""

STREAM = """
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\\n\\n'
    b"data: [DONE]\\n\\n"
)
"""

JOBS = {
    "svir-core": STREAM
    + """
from svir_core.wire import openai_chat
decoder = openai_chat.Decoder()
list(decoder.push(STREAM))
assert decoder.result().text == "Hello"
""",
    "svir-transport-h11": STREAM
    + SERVER
    + """
import anyio
from svir_core import HttpRequest
from svir_transport.h11 import H11Transport
async def main():
    transport = H11Transport()
    headers = (("host", f"127.0.0.1:{PORT}"),)
    response = await transport.open(HttpRequest("GET", "http", "127.0.0.1", PORT, "/v1/models", headers, None), None)
    body = b"".join([data async for data in response])
    await response.aclose()
    await transport.aclose()
    assert (response.head.status, body) == (200, b'{"data": [{"id": "m"}]}')
anyio.run(main)
""",
    "svir-transport-httpx": """
from svir_core import ConfigError
from svir_transport.httpx import HttpxTransport
try:
    HttpxTransport()
except ConfigError as error:
    assert "pip install 'svir-transport-httpx[httpx2]'" in error.detail
else:
    raise AssertionError("there is no library, and nothing was said")
""",
    "svir-client": STREAM
    + SERVER
    + """
import anyio
from svir_client import AsyncClient
from svir_core import Request
async def main():
    async with AsyncClient.openai(f"http://127.0.0.1:{PORT}") as client:
        answer = await client.complete(Request("m").user("hi"))
        assert answer.text == "Hello"
        assert [model.id for model in await client.list_models()] == ["m"]
anyio.run(main)
""",
}


LIBRARY_JOB = (
    STREAM
    + SERVER
    + """
import importlib.util
import anyio
from svir_core import HttpRequest
from svir_transport.httpx import HttpxTransport
assert not {"httpx", "httpx2"} & set(sys.modules)
assert importlib.util.find_spec(OTHER) is None
async def main():
    transport = HttpxTransport()
    headers = (("host", f"127.0.0.1:{PORT}"),)
    response = await transport.open(HttpRequest("GET", "http", "127.0.0.1", PORT, "/v1/models", headers, None), None)
    body = b"".join([data async for data in response])
    await response.aclose()
    await transport.aclose()
    assert (response.head.status, body) == (200, b'{"data": [{"id": "m"}]}')
anyio.run(main)
assert LIBRARY in sys.modules
"""
)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Each distribution's wheel, built from its sdist with the tools of this environment."""
    out = tmp_path_factory.mktemp("wheels")
    built: dict[str, pathlib.Path] = {}
    for name, folder in FOLDERS.items():
        source = tmp_path_factory.mktemp("source") / pathlib.Path(folder).name
        shutil.copytree(ROOT / folder, source, ignore=shutil.ignore_patterns("__pycache__", "dist", "*.egg-info"))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
        subprocess.run(command, check=True, timeout=100, capture_output=True)
        (built[name],) = out.glob(f"{name.replace('-', '_')}-*.whl")
    return built


def requirements(metadata: importlib.metadata.PackageMetadata, extras: set[str]) -> list[Requirement]:
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist") or []]
    return [r for r in found if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras | {""})]


def install(name: str, extras: set[str], wheels: dict[str, pathlib.Path], target: pathlib.Path, seen: set[str]) -> None:
    """Put ``name`` and all it asks for into ``target``."""
    if name in seen:
        return
    seen.add(name)
    if name in wheels:
        with zipfile.ZipFile(wheels[name]) as archive:
            archive.extractall(target)
        (info,) = target.glob(f"{name.replace('-', '_')}-*.dist-info")
        distribution = importlib.metadata.PathDistribution(info)
    else:
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or []:
            source = pathlib.Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.suffix != ".pyc":
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / file)
    for requirement in requirements(distribution.metadata, extras):
        install(requirement.name, set(requirement.extras), wheels, target, seen)


@pytest.mark.parametrize("name", FOLDERS)
def test_wheel_alone_does_its_job(name: str, wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    install(name, set(), wheels, tmp_path, set())
    program = f"import sys; sys.path.append({str(tmp_path)!r})\n{JOBS[name]}"
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("library", "other"), [("httpx2", "httpx"), ("httpx", "httpx2")])
def test_the_httpx_transport_with_one_library_alone(
    library: str, other: str, wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    install("svir-transport-httpx", {library}, wheels, tmp_path, set())
    names = f"LIBRARY, OTHER = {library!r}, {other!r}"
    program = f"import sys; sys.path.append({str(tmp_path)!r})\n{names}\n{LIBRARY_JOB}"
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_core_brings_attrs_and_orjson_and_nothing_else(wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    seen: set[str] = set()
    install("svir-core", set(), wheels, tmp_path, seen)
    assert seen == {"svir-core", "attrs", "orjson"}


@pytest.mark.parametrize("name", FOLDERS)
def test_wheel_is_typed_and_licensed_and_carries_only_its_own_folder(
    name: str, wheels: dict[str, pathlib.Path]
) -> None:
    folder = FOLDERS[name]
    with zipfile.ZipFile(wheels[name]) as archive:
        names = archive.namelist()
    assert f"{folder}/py.typed" in names
    assert any(entry.endswith("licenses/LICENSE") for entry in names)
    assert all(entry.startswith((f"{folder}/", f"{name.replace('-', '_')}-")) for entry in names)


def test_all_distributions_are_at_one_version_and_licensed_alike() -> None:
    versions = {
        tomllib.loads((ROOT / f / "pyproject.toml").read_text())["project"]["version"] for f in FOLDERS.values()
    }
    versions.add(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    assert len(versions) == 1
    license_text = (ROOT / "LICENSE").read_bytes()
    assert all((ROOT / folder / "LICENSE").read_bytes() == license_text for folder in FOLDERS.values())
