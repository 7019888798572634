"""Which rule is held by which case: the table in README.md, made from the folders and the descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.fields import CaseError, Fields, load, text

ROOT = Path(__file__).parent
MARK = "<!-- made by `python -m conformance table`; a test compares it -->"

SECTIONS: Mapping[str, str] = {
    "decoder/01-framing": "Chat Completions, section 1: framing",
    "decoder/02-chunks": "Section 2: chunks",
    "decoder/03-tool-calls": "Section 3: tool calls",
    "decoder/04-refusals": "Section 4: refusals",
    "decoder/05-reasoning": "Section 5: reasoning",
    "decoder/06-usage": "Section 6: usage",
    "decoder/07-failures": "Section 7: failures inside the stream",
    "decoder/08-content-filter": "Section 8: Azure content filtering",
    "decoder/09-overflow": "Section 9: context overflow in a stream",
    "decoder/11a-not-a-deviation": "Quirks, section A: not a deviation",
    "decoder/11b-forgiven": "Quirks, section B: lenient forgives, strict refuses",
    "decoder/11c-quirks": "Quirks, section C: what a quirk repairs, and what is refused without it",
    "decoder/recorded": "Recorded streams of real servers",
    "decoder/openai_responses/00-tricky": "OpenAI Responses: the tricky cases of its sheet (20 section 15)",
    "decoder/openai_responses/01-events": "OpenAI Responses: events, their order, and the end of the input",
    "decoder/openai_responses/02-texts": "OpenAI Responses: messages, items and the final response",
    "decoder/openai_responses/03-calls": "OpenAI Responses: calls",
    "decoder/openai_responses/04-reasoning": "OpenAI Responses: reasoning",
    "decoder/openai_responses/05-usage": "OpenAI Responses: usage",
    "decoder/openai_responses/06-ends": "OpenAI Responses: how an answer ends",
    "decoder/openai_responses/07-failures": "OpenAI Responses: failures inside the stream, and in its place",
    "decoder/openai_responses/08-documents": "OpenAI Responses: whole documents",
    "decoder/openai_responses/09-indices": "OpenAI Responses: events without their indices",
    "decoder/openai_responses/recorded": "OpenAI Responses: recorded streams of real servers",
    "decoder/anthropic_messages/00-tricky": "Anthropic Messages: the tricky cases of its sheet (21 section 15)",
    "decoder/anthropic_messages/01-events": "Anthropic Messages: events and their data",
    "decoder/anthropic_messages/02-blocks": "Anthropic Messages: blocks, their indices and their order",
    "decoder/anthropic_messages/03-calls": "Anthropic Messages: tool calls",
    "decoder/anthropic_messages/04-thinking": "Anthropic Messages: thinking and its signatures",
    "decoder/anthropic_messages/05-opaque": "Anthropic Messages: blocks that are kept as they came",
    "decoder/anthropic_messages/06-usage": "Anthropic Messages: usage, merged figure by figure",
    "decoder/anthropic_messages/07-stop-reasons": "Anthropic Messages: stop reasons",
    "decoder/anthropic_messages/08-failures": "Anthropic Messages: failures inside the stream, and in its place",
    "decoder/anthropic_messages/09-documents": "Anthropic Messages: whole documents",
    "decoder/anthropic_messages/recorded": "Anthropic Messages: recorded streams of real servers",
    "decoder/gemini/00-tricky": "Gemini: the tricky cases of its sheet (22 section 14)",
    "decoder/gemini/01-parts": "Gemini: parts, which are one, and what is kept beside them",
    "decoder/gemini/02-calls": "Gemini: tool calls",
    "decoder/gemini/03-streamed-arguments": "Gemini: arguments in pieces (Vertex)",
    "decoder/gemini/04-candidates": "Gemini: candidates, ids, keys that nobody knows",
    "decoder/gemini/05-usage": "Gemini: usage, overlaid figure by figure",
    "decoder/gemini/06-finish-reasons": "Gemini: finish reasons, and what comes after one",
    "decoder/gemini/07-failures": "Gemini: failures inside the stream, and in its place",
    "decoder/gemini/08-framing": "Gemini: lines, payloads, limits",
    "decoder/gemini/09-documents": "Gemini: bodies that were not streamed",
    "encoder/01-fields": "Section 10: the fields of the request body",
    "encoder/02-messages": "Section 10: messages",
    "encoder/03-attachments": "Section 10: attachments and exact length",
    "encoder/04-admission": "Section 10: admission",
    "encoder/05-clean": "Quirks, section D: what is sent is cleaner than what is read",
    "encoder/openai_responses/01-fields": "OpenAI Responses: the fields of the request body",
    "encoder/openai_responses/02-messages": "OpenAI Responses: messages, results and cache points",
    "encoder/openai_responses/03-attachments": "OpenAI Responses: attachments and exact length",
    "encoder/openai_responses/04-history": "OpenAI Responses: what goes back as it came, and what stays at home",
    "encoder/openai_responses/05-clean": "OpenAI Responses: what is sent is cleaner than what is read",
    "encoder/openai_responses/06-admission": "OpenAI Responses: admission",
    "encoder/anthropic_messages/01-fields": "Anthropic Messages: the fields of the request body",
    "encoder/anthropic_messages/02-messages": "Anthropic Messages: messages and cache points",
    "encoder/anthropic_messages/03-attachments": "Anthropic Messages: attachments and exact length",
    "encoder/anthropic_messages/04-history": "Anthropic Messages: what goes back as it came, and what stays at home",
    "encoder/anthropic_messages/05-clean": "Anthropic Messages: what is sent is cleaner than what is read",
    "encoder/anthropic_messages/06-admission": "Anthropic Messages: admission",
    "encoder/gemini/01-fields": "Gemini: the fields of the request body",
    "encoder/gemini/02-messages": "Gemini: contents",
    "encoder/gemini/03-history": "Gemini: what goes back as it came, and what stays at home",
    "encoder/gemini/04-results": "Gemini: results of calls",
    "encoder/gemini/05-attachments": "Gemini: attachments and exact length",
    "encoder/gemini/06-admission": "Gemini: admission",
    "transport/01-url": "Section 11: base URLs",
    "transport/02-headers": "Section 11: headers",
    "transport/03-response": "Section 11: the response and its content type",
    "transport/04-status": "Sections 9 and 11: statuses",
    "transport/05-error-bodies": "Section 11: error bodies",
    "transport/06-retry-after": "Section 11: Retry-After",
    "transport/07-compatibility": "Section 11: compatibility, and renames",
    "transport/08-models": "Section 11: model listing",
    "transport/09-closing": "Closing and cancelling",
    "transport/10-clocks": "Clocks and connections",
    "transport/11-before-a-byte-is-sent": "Refused before a byte is sent",
    "transport/12-secrecy": "Section 11: nothing secret is shown",
    "transport/recorded": "Recorded refusals and streams of real servers",
}
"""Every folder of cases, and the rule it holds. The order is that of the table."""


def description(path: Path) -> str:
    """What a case says of itself; ``CaseError`` when it says nothing."""
    document = load(path)
    if not isinstance(document, dict):
        raise CaseError(f"{path.name}: an object is expected")
    fields = Fields({"description": document.get("description")}, path.name)
    return fields.required("description", text)


def table(root: Path = ROOT) -> str:
    """The list of rules and cases, as Markdown."""
    lines = [MARK]
    for folder, rule in SECTIONS.items():
        cases = sorted((root / folder).glob("*.json"))
        lines += ["", f"### `{folder}`: {rule} ({len(cases)} cases)", ""]
        lines += [f"- `{path.stem}`: {description(path)}" for path in cases]
    return "\n".join(lines) + "\n"
