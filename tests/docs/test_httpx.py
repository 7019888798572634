"""docs/httpx.md says what is true: its table is the signature, its bounds are those of the code, its snippets run."""

from __future__ import annotations

import inspect
import pathlib
import re

from svir_transport.httpx import HttpxTransport
from svir_transport.httpx.transport import DEFAULTS

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "httpx.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_option_is_in_the_table_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    parameters = inspect.signature(HttpxTransport).parameters
    assert list(rows) == list(parameters)
    for name in ("connect_timeout", "max_connections", "max_idle", "idle_expiry"):
        assert rows[name].removesuffix(" s") == f"{parameters[name].default:g}"
    assert (DEFAULTS.ssl_context, DEFAULTS.http2) == (None, False)


def test_the_clients_of_the_snippets_can_be_made() -> None:
    made = [snippet for snippet in SNIPPETS if "pem" not in snippet and "async with" not in snippet]
    assert len(made) == 3
    names: dict[str, object] = {}
    exec("import httpx2\nfrom svir_transport.httpx import HttpxTransport", names)
    for snippet in made:
        exec(snippet, names)
