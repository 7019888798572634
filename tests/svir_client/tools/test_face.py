"""The face of the package, and what importing it loads."""

from __future__ import annotations

import subprocess
import sys

import svir_client
from svir_client import tools


def test_the_client_exports_what_the_package_does() -> None:
    assert set(tools.__all__) <= set(svir_client.__all__)
    assert all(getattr(tools, name) is getattr(svir_client, name) for name in tools.__all__)


def test_importing_the_client_and_adding_a_typed_tool_loads_no_schema_validator_and_no_mcp() -> None:
    program = """if True:
        import sys, svir_client
        heavy = ("jsonschema", "referencing", "docstring_parser", "mcp", "pydantic")
        print([name for name in heavy if name in sys.modules])
        svir_client.Tools().add(lambda: 0, name="f")
        print([name for name in heavy if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "['docstring_parser']"]
