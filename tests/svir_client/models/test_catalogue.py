"""The catalogue, and models of the user's own: 50, Catalogue; 51 section 7."""

from __future__ import annotations

import ast
import pathlib
import pickle
import subprocess
import sys
from datetime import date
from typing import Any

import attrs
import pytest

import svir_client
from svir_client import Capability, ModelDescriptor, models
from svir_core.errors import ConfigError
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses

ROOT = pathlib.Path(__file__).parents[3]
APIS = {api.name: api for api in (openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API)}

EXPECTED = {
    "gpt-5.6-sol": ("openai_responses", 1_050_000, False),
    "gpt-5.6-terra": ("openai_responses", 1_050_000, False),
    "gpt-5.6-luna": ("openai_responses", 1_050_000, False),
    "claude-fable-5": ("anthropic_messages", 1_000_000, False),
    "claude-opus-4-8": ("anthropic_messages", 1_000_000, False),
    "claude-sonnet-5": ("anthropic_messages", 1_000_000, False),
    "claude-haiku-4-5-20251001": ("anthropic_messages", 200_000, False),
    "gemini-3.6-flash": ("gemini", 1_048_576, True),
    "gemini-3.5-flash": ("gemini", 1_048_576, True),
    "gemini-3.5-flash-lite": ("gemini", 1_048_576, True),
    "gemini-2.5-pro": ("gemini", 1_048_576, True),
}
"""API, context window, and whether it takes audio."""


def test_the_catalogue_has_these_models() -> None:
    assert list(models.CATALOGUE) == list(EXPECTED)


@pytest.mark.parametrize("id", EXPECTED)
def test_a_row(id: str) -> None:
    api, window, audio = EXPECTED[id]
    row = models.find(id)
    assert row is models.CATALOGUE[id]
    assert (row.id, row.api, row.context_window, row.read_on) == (id, api, window, date(2026, 7, 23))
    assert row.api in APIS
    assert row.display_name != id
    assert row.capabilities == {
        *("text_input", "text_output", "image_input", "file_input", "tools", "parallel_tool_calls"),
        *(["audio_input"] if audio else []),
    }
    assert (row.max_output_tokens, row.settings, row.extra) == (None, {}, {})
    assert pickle.loads(pickle.dumps(row)) == row


def test_display_names_are_unique() -> None:
    assert len({row.display_name for row in models.CATALOGUE.values()}) == len(EXPECTED)


@pytest.mark.parametrize("id", ["gpt-9", "", "GPT-5.6-SOL", "gpt-5.6"])
def test_an_unknown_model_is_refused_with_what_there_is(id: str) -> None:
    with pytest.raises(ConfigError) as caught:
        models.find(id)
    assert all(known in str(caught.value) for known in EXPECTED)


def test_an_id_is_a_string() -> None:
    wrong: Any = ["gpt-5.6-sol"]
    with pytest.raises(ConfigError, match="the id of a model must be a str"):
        models.find(wrong)


def test_a_row_is_changed_into_one_of_ones_own() -> None:
    row = attrs.evolve(
        models.find("gpt-5.6-sol"), api="openai_chat", max_output_tokens=4096, settings={"effort": "low"}
    )
    assert row.request().max_tokens == 4096
    assert models.find("gpt-5.6-sol").request().max_tokens is None


def test_the_table_cannot_be_changed() -> None:
    table: Any = models.CATALOGUE
    with pytest.raises(TypeError):
        table["m"] = ModelDescriptor("m")


def test_a_model_of_a_local_server() -> None:
    assert models.local("qwen3-27b") == ModelDescriptor("qwen3-27b", api=openai_chat.API.name)
    model = models.local(
        "qwen3-27b",
        capabilities=["tools", Capability.IMAGE_INPUT],
        context_window=32768,
        max_output_tokens=4096,
        settings={"effort": "low"},
        extra={"min_p": 0.05},
    )
    assert model.capabilities == {"text_input", "text_output", "tools", "image_input"}
    assert (model.context_window, model.max_output_tokens) == (32768, 4096)
    assert model.request().extra == {"min_p": 0.05}
    assert model.request().effort == "low"


@pytest.mark.parametrize("wrong", ["tools", 5, ["vision"]])
def test_wrong_capabilities_of_a_local_model_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="capabilit"):
        models.local("m", capabilities=wrong)


def test_the_face_is_what_it_imports() -> None:
    tree = ast.parse(pathlib.Path(models.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert isinstance(models.__all__, tuple)
    assert set(models.__all__) == imported
    assert len(models.__all__) == len(imported)
    assert (svir_client.ModelDescriptor, svir_client.Capability) == (models.ModelDescriptor, models.Capability)


def test_the_catalogue_loads_no_codec() -> None:
    program = "import sys; before = set(sys.modules); from svir_client import models; print(*set(sys.modules) - before)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert "svir_client.models" in loaded
    for api in ("anthropic_messages", "gemini", "openai_responses"):
        assert f"svir_core.wire.{api}" not in loaded


def test_no_module_knows_a_model_by_name() -> None:
    """Nothing branches on a model's name: outside of the table no string of the code, docstrings apart, has one."""
    stems = ("gpt-", "claude-", "gemini-3", "gemini-2", "qwen", "llama-")
    for package in ("svir_core", "svir_client", "svir_transport"):
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "catalogue.py":
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                    assert not node.value.lower().startswith(stems), f"{path}:{node.lineno} has {node.value!r}"
