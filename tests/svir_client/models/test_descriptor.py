"""What is known of a model, and what follows from it: 50, Catalogue and Options; 51 sections 1.3 and 2.6."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime
from typing import Any

import attrs
import orjson
import pytest

from svir_client import Capability, ModelDescriptor, Tools
from svir_client.models import TEXT, local
from svir_client.models.descriptor import HABITS, SETTINGS
from svir_core import Effort, Message, Request, Schema, Tool, ToolChoice
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Opaque,
    Part,
    Reasoning,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api, CodecOptions, Compat

FULL = ModelDescriptor(
    "m",
    api="gemini",
    display_name="M",
    capabilities=[*Capability],
    context_window=1000,
    max_output_tokens=100,
    settings={"effort": "low", "temperature": 0.5, "stop": ["x"]},
    extra={"generationConfig": {"topK": 4}},
    read_on=date(2026, 7, 23),
)


# --- values --------------------------------------------------------------------------------------


def test_what_a_name_alone_says() -> None:
    model = ModelDescriptor("m")
    assert (model.id, model.display_name, model.api, model.capabilities) == ("m", "m", None, TEXT)
    assert (model.context_window, model.max_output_tokens, model.read_on) == (None, None, None)
    assert (model.settings, model.extra) == ({}, {})


def test_values() -> None:
    again = ModelDescriptor(
        "m",
        api="gemini",
        display_name="M",
        capabilities=set(Capability),
        context_window=1000,
        max_output_tokens=100,
        settings={"effort": Effort.LOW, "temperature": 0.5, "stop": "x"},
        extra={"generationConfig": {"topK": 4}},
        read_on=date(2026, 7, 23),
    )
    assert again == FULL
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    assert copy.deepcopy(FULL) == FULL
    assert attrs.evolve(FULL, id="n") != FULL
    assert attrs.evolve(FULL) == FULL
    full: Any = FULL
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        full.id = "n"


def test_a_descriptor_shares_nothing_with_what_it_was_made_of() -> None:
    extra: dict[str, Any] = {"a": {"b": [1]}}
    settings: dict[str, Any] = {"temperature": 0.5}
    model = ModelDescriptor("m", extra=extra, settings=settings)
    extra["a"]["b"].append(2)
    settings["temperature"] = 1.0
    assert model.extra == {"a": {"b": [1]}}
    assert model.settings == {"temperature": 0.5}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"id": ""}, "id must not be empty"),
        ({"id": 5}, "id must be a str"),
        ({"api": ""}, "api must not be empty"),
        ({"api": openai_chat.API}, "api must be a str"),
        ({"display_name": ""}, "display_name must not be empty"),
        ({"capabilities": "tools"}, "capabilities is a set"),
        ({"capabilities": 5}, "capabilities is a set"),
        ({"capabilities": ["vision"]}, "a capability is one of 'text_input', 'text_output', 'image_input'"),
        ({"context_window": 0}, "context_window must be an integer of 1 or more"),
        ({"context_window": 1.5}, "context_window must be an integer of 1 or more"),
        ({"max_output_tokens": 0}, "max_output_tokens must be an integer of 1 or more"),
        ({"max_output_tokens": True}, "max_output_tokens must be an integer of 1 or more"),
        ({"settings": 5}, "settings is a mapping"),
        ({"settings": {5: 1}}, "settings is a mapping"),
        ({"settings": {"effrot": "low", "x": 1}}, "settings has no setting named effrot, x"),
        ({"settings": {"max_tokens": 5}}, "settings has no setting named max_tokens"),
        ({"settings": {"effort": "much"}}, "Request.effort is one of"),
        ({"settings": {"temperature": "hot"}}, "Request.temperature must be a number"),
        ({"extra": 5}, "extra is a mapping"),
        ({"extra": {"a": object()}}, "extra.a is an object"),
        ({"read_on": "2026-07-23"}, "read_on must be a date or None, not str"),
        ({"read_on": datetime(2026, 7, 23, tzinfo=UTC)}, "read_on must be a date or None, not datetime"),
    ],
)
def test_what_is_wrong_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        attrs.evolve(FULL, **wrong)


def test_every_setting_of_a_request_has_its_place() -> None:
    fields = {field.name for field in attrs.fields(Request)}
    assert fields - SETTINGS == {"model", "system", "messages", "tools", "extra"}
    assert set(HABITS) == SETTINGS - {"max_tokens"}


# --- requests ------------------------------------------------------------------------------------


def test_a_request_has_the_habits_of_its_model() -> None:
    request = FULL.request(system="s", messages=[Message.user("hi")], tools=[Tool("f")], extra={"x": 1})
    assert request == Request(
        "m",
        system="s",
        messages=(Message.user("hi"),),
        tools=(Tool("f"),),
        effort="low",
        temperature=0.5,
        stop=("x",),
        max_tokens=100,
        extra={"generationConfig": {"topK": 4}, "x": 1},
    )
    assert ModelDescriptor("m").request() == Request("m")


def test_a_call_wins_over_its_model() -> None:
    request = FULL.request(
        effort="high", max_tokens=5, temperature=0, extra={"generationConfig": {"topK": 8, "seed": 1}}
    )
    assert (request.effort, request.max_tokens, request.temperature, request.stop) == (Effort.HIGH, 5, 0, ("x",))
    assert request.extra == {"generationConfig": {"topK": 8, "seed": 1}}
    lifted = FULL.request(effort=None, max_tokens=None, temperature=None, stop=())
    assert (lifted.effort, lifted.max_tokens, lifted.temperature, lifted.stop) == (None, None, None, ())


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("tool_choice", "none", ToolChoice.NONE),
        ("parallel_tools", False, False),
        ("response_format", Schema("n", {}), Schema("n", {})),
        ("effort", "low", Effort.LOW),
        ("temperature", 0.5, 0.5),
        ("top_p", 0.5, 0.5),
        ("stop", "x", ("x",)),
        ("seed", 5, 5),
        ("include_usage", False, False),
        ("send_reasoning", True, True),
    ],
)
def test_any_setting_may_be_a_habit(name: str, value: Any, same: Any) -> None:
    assert name in HABITS
    model = ModelDescriptor("m", settings={name: value})
    assert model.settings == {name: same}
    assert getattr(model.request(), name) == same
    assert pickle.loads(pickle.dumps(model)) == model


def test_tools_of_a_request_may_be_a_registry() -> None:
    tools = Tools()

    @tools.tool
    def look(at: str) -> str:
        """Look at it."""
        return at

    assert [tool.name for tool in FULL.request(tools=tools).tools] == ["look"]


def test_requests_share_nothing_with_their_model_or_call() -> None:
    extra: dict[str, Any] = {"a": {"b": [1]}}
    request = FULL.request(extra=extra)
    request.extra["generationConfig"]["topK"] = 5
    request.extra["a"]["b"].append(2)
    assert FULL.extra == {"generationConfig": {"topK": 4}}
    assert extra == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"model": "n"}, r"ModelDescriptor.request\(\) has no setting named model"),
        ({"effrot": "low"}, r"ModelDescriptor.request\(\) has no setting named effrot"),
        ({"effort": "much"}, "Request.effort is one of"),
        ({"extra": 5}, "extra is a mapping"),
        ({"messages": 5}, "Request.messages"),
    ],
)
def test_a_wrong_setting_of_a_call_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FULL.request(**wrong)


TYPED_FIRST: list[tuple[Api, dict[str, Any], dict[str, Any], dict[str, Any], str, Any]] = [
    (
        openai_responses.API,
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"reasoning": {"summary": "detailed", "mode": "pro"}},
        {"effort": "low"},
        "reasoning",
        {"effort": "low", "summary": "detailed", "mode": "pro"},
    ),
    (
        anthropic_messages.API,
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {},
        {"effort": "off"},
        "thinking",
        {"type": "disabled"},
    ),
    (
        gemini.API,
        {"generationConfig": {"topK": 4, "temperature": 1, "mediaResolution": "LOW"}},
        {"generationConfig": {"topK": 8, "maxOutputTokens": 9}},
        {"temperature": 0.0, "max_tokens": 5},
        "generationConfig",
        {"topK": 8, "mediaResolution": "LOW", "temperature": 0.0, "maxOutputTokens": 5},
    ),
    (
        openai_chat.API,
        {"provider": {"order": ["a"], "sort": "price"}},
        {"provider": {"order": ["b"]}},
        {"temperature": 0.0},
        "provider",
        {"order": ["b"], "sort": "price"},
    ),
]


@pytest.mark.parametrize(
    ("api", "of_model", "of_call", "typed", "field", "expected"), TYPED_FIRST, ids=[api.name for api, *_ in TYPED_FIRST]
)
@pytest.mark.parametrize("habit", [True, False], ids=["typed by the model", "typed by the call"])
def test_call_over_model_and_typed_over_both(
    api: Api,
    of_model: dict[str, Any],
    of_call: dict[str, Any],
    typed: dict[str, Any],
    field: str,
    expected: Any,
    *,
    habit: bool,
) -> None:
    settings = {name: value for name, value in typed.items() if name != "max_tokens"}
    model = ModelDescriptor(
        "m",
        extra=of_model,
        settings=settings if habit else {},
        max_output_tokens=typed.get("max_tokens") if habit else None,
    )
    request = model.request(messages=[Message.user("hi")], extra=of_call, **({} if habit else typed))
    assert orjson.loads(bytes(api.encode(request, CodecOptions(), Compat())))[field] == expected


# --- what it can take in -------------------------------------------------------------------------

PNG = Image.data(b"x", "image/png")
NEEDS: list[tuple[Any, str, Capability]] = [
    ("hi", "text", Capability.TEXT_INPUT),
    (Text("hi"), "text", Capability.TEXT_INPUT),
    (TextFile.data("hi", "a.txt"), "a text file", Capability.TEXT_INPUT),
    (PNG, "an image", Capability.IMAGE_INPUT),
    (Image.url("https://example.com/a.png"), "an image", Capability.IMAGE_INPUT),
    (Media.data(b"x", "audio/wav"), "audio", Capability.AUDIO_INPUT),
    (Media.data(b"x", "Audio/MPEG"), "audio", Capability.AUDIO_INPUT),
    (Media.data(b"x", "application/pdf"), "a file", Capability.FILE_INPUT),
    (Media.data(b"x", "video/mp4"), "a video", Capability.FILE_INPUT),
    (Media.path("a.unknown"), "a file", Capability.FILE_INPUT),
]


@pytest.mark.parametrize(("part", "name", "capability"), NEEDS)
def test_each_part_needs_one_capability(part: Any, name: str, capability: Capability) -> None:
    able = ModelDescriptor("m", capabilities={capability})
    unable = ModelDescriptor("m", capabilities=set(Capability) - {capability})
    result = ToolResult("c", [Text(part) if isinstance(part, str) else part])
    for content, place in (
        (part, "here"),
        ([CachePoint(), part], r"here\[1\]"),
        (Message.user(CachePoint(), part), r"here.parts\[1\]"),
        (result, r"here.content\[0\]"),
        (Message.tool(result), r"here.parts\[0\].content\[0\]"),
    ):
        able.check(content, "here")
        with pytest.raises(UnsupportedError, match=f"^{place} is {name}, and the model has no {capability.value}$"):
            unable.check(content, "here")


def test_what_a_model_said_needs_nothing() -> None:
    unable = ModelDescriptor("m", capabilities=())
    parts: list[Part] = [
        Reasoning("think", "x"),
        ToolCall("c", "f", "{}"),
        ToolResult("c", "text"),
        ToolResult("c", []),
        Opaque("gemini", "{}"),
        CachePoint(),
    ]
    unable.check(parts)
    unable.check([])
    for part in parts:
        unable.check(part)


def test_the_first_part_that_is_refused_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"^content\[1\] is an image"):
        ModelDescriptor("m").check(["hi", PNG, Media.data(b"x", "audio/wav")])
    local("m", capabilities=["image_input", "audio_input"]).check(["hi", PNG, Media.data(b"x", "audio/wav")])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [(5, "here is an int"), ([5], r"here\[0\] is an int, not a part"), (None, "here is a NoneType")],
)
def test_what_is_no_part_is_refused(wrong: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FULL.check(wrong, "here")


def test_tools() -> None:
    FULL.check_tools()
    with pytest.raises(UnsupportedError, match="the model has no tools"):
        ModelDescriptor("m").check_tools()
