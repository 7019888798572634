"""Tools: functions, and an MCP session's, that a model may call (30 section 4)."""

from svir_client.tools.context import ToolContext
from svir_client.tools.error import ToolError
from svir_client.tools.pool import call_all
from svir_client.tools.registry import Tools
from svir_client.tools.toolbox import Toolbox

__all__ = ("ToolContext", "ToolError", "Toolbox", "Tools", "call_all")
