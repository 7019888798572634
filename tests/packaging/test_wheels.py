"""What is shipped is what is tested: each wheel is built, installed alone by pip, and does its job (00 section 1).

No index is asked: a virtual environment gets, copied from this one, exactly what the wheel's metadata asks of others;
pip finds our own distributions in the folder of wheels, and says whether all that they ask for is there.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Sequence

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.floors import FOLDERS, ROOT

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
from svir_client import AsyncClient, Tools
from svir_core import Request, ToolCall
async def main():
    async with AsyncClient.openai(f"http://127.0.0.1:{PORT}") as client:
        answer = await client.complete(Request("m").user("hi"))
        assert answer.text == "Hello"
        assert [model.id for model in await client.list_models()] == ["m"]
    tools = Tools()
    schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    tools.add(lambda value: value * 2, name="double", schema=schema)
    results = await tools.call_all([ToolCall("1", "double", '{"value": 7}'), ToolCall("2", "double", "{}")])
    assert [result.content for result in results][0] == "14" and results[1].is_error
    try:
        import svir_client.tools.mcp
    except ModuleNotFoundError as error:
        assert "pip install 'svir-client[mcp]'" in str(error)
    else:
        raise AssertionError("there is no mcp, and nothing was said")
anyio.run(main)
""",
}


LIBRARY_JOB = (
    STREAM
    + SERVER
    + """
import importlib.util
import sys
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


def metadata_of(wheel: pathlib.Path) -> importlib.metadata.PackageMetadata:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {entry.partition("/")[0] for entry in archive.namelist() if ".dist-info/" in entry}
        return importlib.metadata.PathDistribution(zipfile.Path(archive, f"{info}/")).metadata


def everything(wanted: Requirement, wheels: dict[str, pathlib.Path], seen: set[str]) -> None:
    """Into ``seen``: what ``wanted`` is, and all that it asks for."""
    name = canonicalize_name(wanted.name)
    if name in seen and not wanted.extras:
        return
    seen.add(name)
    metadata = metadata_of(wheels[name]) if name in wheels else importlib.metadata.metadata(name)
    for requirement in requirements(metadata, wanted.extras):
        everything(requirement, wheels, seen)


def copy(name: str, target: pathlib.Path) -> None:
    """Put the distribution ``name`` of this environment into the folder ``target``."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or []:
        source = pathlib.Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and source.suffix != ".pyc":
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / file)


class Environment:
    """A virtual environment that holds ``wanted`` of our wheels, ``beside`` of others, and all that these ask for."""

    def __init__(
        self, folder: pathlib.Path, wheels: dict[str, pathlib.Path], wanted: str, beside: Sequence[str] = ()
    ) -> None:
        venv.create(folder, symlinks=os.name != "nt")
        scheme = functools.partial(sysconfig.get_path, scheme="venv", vars={"base": str(folder)})
        self.python = pathlib.Path(scheme("scripts"), "python")
        self.names: set[str] = set()
        for each in (wanted, *beside):
            everything(Requirement(each), wheels, self.names)
        for name in self.names - wheels.keys():
            copy(name, pathlib.Path(scheme("purelib")))
        self.pip(
            "install", "--no-index", "--no-compile", "--find-links", str(next(iter(wheels.values())).parent), wanted
        )
        self.pip("check")

    def pip(self, *arguments: str) -> str:
        """What this environment's pip says of the other: no configuration of the machine, no index."""
        return self._run([sys.executable, "-m", "pip", "--python", str(self.python), *arguments])

    def run(self, *arguments: str) -> str:
        """What its Python prints, warnings being errors; it has to end well."""
        return self._run([str(self.python), "-I", "-W", "error", *arguments])

    def _run(self, command: list[str]) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "PYTEST"))}
        environment["PIP_CONFIG_FILE"] = os.devnull
        done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def install(wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Callable[..., Environment]:
    return functools.partial(Environment, tmp_path / "venv", wheels)


@pytest.mark.parametrize("name", FOLDERS)
def test_wheel_alone_does_its_job(name: str, install: Callable[..., Environment]) -> None:
    install(name).run("-c", JOBS[name])


@pytest.mark.parametrize(("library", "other"), [("httpx2", "httpx"), ("httpx", "httpx2")])
def test_the_httpx_transport_with_one_library_alone(
    library: str, other: str, install: Callable[..., Environment]
) -> None:
    install(f"svir-transport-httpx[{library}]").run("-c", f"LIBRARY, OTHER = {library!r}, {other!r}\n{LIBRARY_JOB}")


def test_the_client_reports_to_opentelemetry_by_its_extra(install: Callable[..., Environment]) -> None:
    job = JOBS["svir-client"].replace("AsyncClient.openai(f", "AsyncClient.openai(layers=[TRACE], base_url=f")
    sink = "from svir_client.tracing import Trace, opentelemetry\nTRACE = Trace(opentelemetry())\n"
    install("svir-client[opentelemetry]").run("-c", f"{sink}{job}assert TRACE.failures == 0\n")


def test_pytest_finds_the_fixtures_of_the_client(install: Callable[..., Environment], tmp_path: pathlib.Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "def test_it(scripted_transport, blocking_mock_server):\n"
        "    assert scripted_transport.__class__.__name__ == 'ScriptedTransport'\n"
        "    assert blocking_mock_server.origin.startswith('http://127.0.0.1:')\n"
    )
    output = install("svir-client", ["pytest"]).run("-m", "pytest", "-p", "no:cacheprovider", "-q", str(test))
    assert "1 passed" in output


@pytest.mark.parametrize("name", FOLDERS)
def test_an_sdist_holds_the_files_of_the_wheel(name: str, wheels: dict[str, pathlib.Path]) -> None:
    (sdist,) = wheels[name].parent.glob(f"{name.replace('-', '_')}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {entry.partition("/")[2] for entry in archive.getnames()}
    with zipfile.ZipFile(wheels[name]) as wheel:
        files = {entry.removeprefix(f"{FOLDERS[name]}/") for entry in wheel.namelist() if ".dist-info/" not in entry}
    assert files < inside
    assert inside - files <= {"", "PKG-INFO", "README.md", "LICENSE", "pyproject.toml", ".gitignore"}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_metadata_says_what_pyproject_does_and_no_more(name: str, wheels: dict[str, pathlib.Path]) -> None:
    project = tomllib.loads((ROOT / FOLDERS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = metadata_of(wheels[name])
    said = (metadata["Name"], metadata["Version"], metadata["Summary"], metadata["License-Expression"])
    assert said == (name, project["version"], project["description"], "MIT OR Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = (ROOT / FOLDERS[name] / "README.md").read_text(encoding="utf-8")
    assert str(metadata.json["description"]).strip() == readme.strip()
    assert not {"Home-page", "Project-URL", "Download-URL", "Author", "Author-email", "Maintainer"} & set(metadata)


def test_core_brings_attrs_and_orjson_and_nothing_else(install: Callable[..., Environment]) -> None:
    environment = install("svir-core")
    assert environment.names == {"svir-core", "attrs", "orjson"}
    listed = environment.pip("list", "--format", "freeze").split()
    assert {line.partition("==")[0] for line in listed} == environment.names


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
