"""The references of a JSON Schema (2020-12), checked before there is a document: each from where it stands.

Only what is a schema is looked at: a property may be named ``default``, and a ``default`` may hold a ``$ref``.
"""

from __future__ import annotations

from typing import Any

from svir_core.wire.json_value import Json, is_object


def leads_nowhere(schema: Json, registry: Any) -> bool:
    """Whether a reference of ``schema`` leads to no schema in it."""
    from referencing.jsonschema import DRAFT202012  # imported late: most programs have no schema of their own

    root: Any = DRAFT202012.create_resource(schema)
    waiting = [(registry.resolver_with_root(root), schema)]
    seen: set[int] = set()
    while waiting:
        resolver, contents = waiting.pop()
        if id(contents) in seen or not is_object(contents):
            continue
        seen.add(id(contents))
        try:
            found = [resolver.lookup(contents[keyword]) for keyword in ("$ref", "$dynamicRef") if keyword in contents]
            within = list(DRAFT202012.create_resource(contents).subresources())
        except Exception:  # noqa: BLE001 - beside Unresolvable, what it makes of a target that is no schema
            return True
        waiting += [(each.resolver, each.contents) for each in found]
        waiting += [(resolver.in_subresource(inner), inner.contents) for inner in within]
    return False
