"""Which modules are mutated, and by which tests: the module's own first, since they are to tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CORE: Final = "tests/svir_core"
CHAT: Final = f"{CORE}/wire/openai_chat"
EXCHANGE: Final = (f"{CORE}/test_exchange_table.py", f"{CORE}/test_exchange.py", f"{CORE}/test_redact_call.py")

PLAN: Final[Mapping[str, tuple[str, ...]]] = {
    "svir_core.sse": (f"{CORE}/test_sse.py",),
    "svir_core.think": (f"{CORE}/test_think.py",),
    "svir_core.exchange_table": EXCHANGE[:1],
    "svir_core.exchange": EXCHANGE[1:],
    "svir_core.call": (*EXCHANGE[1:], f"{CORE}/test_document_call.py"),
    "svir_core.refusal": (f"{CORE}/test_refusal.py", *EXCHANGE[1:]),
    "svir_core.redact": (f"{CORE}/test_redact.py",),
    "svir_core.redact_call": EXCHANGE[2:],
    "svir_core.status": (f"{CORE}/test_status.py",),
    "svir_core.wire.policy": (f"{CORE}/wire/test_policy.py",),
    "svir_core.wire.openai_chat.table": (f"{CHAT}/test_table.py",),
}
