"""The names of OpenTelemetry's GenAI semantic conventions that svir reports by, in one table.

Read from ``opentelemetry-semantic-conventions`` 0.66b2 (October 2026), which a test compares. In that release the
names are marked as moved to a repository of their own, where they are the same; their status is "development".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

READ_FROM: Final = ("opentelemetry-semantic-conventions", "0.66b2", "2026-10")
"""The distribution that the table was read from, its version, and the month of its release."""

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
USAGE_CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"
RESEND_COUNT: Final = "http.request.resend_count"

DURATION: Final = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"

SECONDS_BOUNDARIES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BOUNDARIES: Final = tuple(4**power for power in range(14))
"""The buckets that the conventions ask for."""

REQUEST_ID: Final = "svir.request_id"
TOKENS_PER_SECOND: Final = "svir.tokens_per_second"
OUTCOME: Final = "svir.outcome"
SERVER_MESSAGE: Final = "svir.server_message"
EXCEPTION: Final = "svir.exception"
ROUND: Final = "svir.round"
MODEL_ROUNDS: Final = "svir.model_rounds"
TOOL_CALLS: Final = "svir.tool_calls"
"""What the conventions have no name for."""

PROVIDERS: Final[Mapping[str, str]] = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "anthropic_messages": "anthropic",
    "gemini": "gcp.gemini",
}
"""What the conventions call the provider of a wire API, whoever serves it: an API of another is called by its name."""

OPERATIONS: Final[Mapping[str, str]] = {"gemini": "generate_content"}
"""What they call its operation; that of the others is ``chat``."""

LOOP_OPERATIONS: Final[Mapping[str, str]] = {"generation": "invoke_agent", "tool": "execute_tool"}
"""What they call a generation, and the call of a tool."""

USAGE: Final[Mapping[str, str]] = {
    "input": USAGE_INPUT_TOKENS,
    "output": USAGE_OUTPUT_TOKENS,
    "reasoning": USAGE_REASONING_TOKENS,
    "cache_read": USAGE_CACHE_READ_TOKENS,
    "cache_write": USAGE_CACHE_CREATION_TOKENS,
}
"""Fields of ``Usage``; for ``total`` they have no name."""
