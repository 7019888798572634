"""What a type checker says of models: a row is a descriptor, and that makes requests. Checked, and never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

import attrs

from svir_client import Capability, ModelDescriptor, Tools, models
from svir_core import Image, Message, Request, Tool

assert_type(models.find("m"), ModelDescriptor)
assert_type(models.CATALOGUE, Mapping[str, ModelDescriptor])
assert_type(models.merge_extra({}, {"a": 1}), dict[str, Any])

model = models.local("m", capabilities=["tools", Capability.IMAGE_INPUT], settings={"effort": "low"})
assert_type(model, ModelDescriptor)
assert_type(model.capabilities, frozenset[Capability])
assert_type(attrs.evolve(model, max_output_tokens=5), ModelDescriptor)
assert_type(model.request(messages=[Message.user("hi")], tools=Tools(), extra={"a": 1}, effort="low"), Request)
assert_type(model.request(system="s", tools=[Tool("f")], max_tokens=None), Request)

model.check(Message.user("hi"))
model.check("hi", "input")
model.check(Image.path("a.png"))
model.check(["hi", Image.path("a.png")], "input")
model.check_tools()
