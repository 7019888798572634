"""svir's codec: bytes in, events out; request in, bytes out. No I/O.

The wire APIs are ``svir_core.wire.openai_chat`` and its like; the JSON form of every type here is
``svir_core.serial``.
"""

from svir_core.body import Body, Measured, Measurements
from svir_core.compat import Compatibility
from svir_core.diagnose import explain
from svir_core.document_call import Counting, Listing
from svir_core.errors import (
    AttachmentError,
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    ErrorKind,
    MaxRoundsError,
    MaxToolCallsError,
    ProtocolError,
    RateLimitedError,
    ResponseLimitError,
    ResponseTimeoutError,
    ServerError,
    SessionInUseError,
    StoreError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.exchange import READ_STREAM, Exchange, ReadError, ReadStream, Retry
from svir_core.explanation import Attempt, Explanation, Finding
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.generation_event import GenerationEvent, RoundEvent, RoundResults
from svir_core.history import HistoryFault, HistoryFaultCode, check_history
from svir_core.http_message import Endpoint, HttpRequest, ResponseHead
from svir_core.limits import Limits
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, Finished, LoopStep, RunTools
from svir_core.message import (
    BytesSource,
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    PathSource,
    Reasoning,
    ResultPart,
    Role,
    Source,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
    UrlSource,
)
from svir_core.price import Prices, cost
from svir_core.quirk import Quirk
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, Toolbox, ToolChoice, ToolMode
from svir_core.response import Anomaly, AnomalyCode, Completion, FinishReason, Partial, Timing, Usage
from svir_core.secret import Secret
from svir_core.server_profile import Profile, profile
from svir_core.tap import Tap
from svir_core.think import Think
from svir_core.tool_id import portable_tool_id, with_portable_tool_ids
from svir_core.version import VERSION as __version__
from svir_core.wire.api import CodecOptions, Compat, Mode, Model, ModelPage

__all__ = (
    # what is asked
    "Request",
    "Message",
    "Role",
    "Tool",
    "Toolbox",
    "ToolChoice",
    "ToolMode",
    "ResponseFormat",
    "Schema",
    "Effort",
    # what messages are made of
    "Part",
    "ResultPart",
    "Text",
    "Image",
    "TextFile",
    "Media",
    "Reasoning",
    "ToolCall",
    "ToolResult",
    "Opaque",
    "CachePoint",
    "Source",
    "PathSource",
    "BytesSource",
    "UrlSource",
    # what is answered
    "Event",
    "Events",
    "TextDelta",
    "ReasoningDelta",
    "ToolCallDelta",
    "Completed",
    "Completion",
    "FinishReason",
    "Usage",
    "Timing",
    "Partial",
    "Anomaly",
    "AnomalyCode",
    "Model",
    "ModelPage",
    # how it is encoded and decoded
    "Mode",
    "Quirk",
    "Profile",
    "profile",
    "Think",
    "Limits",
    "CodecOptions",
    "Body",
    "Measured",
    "Measurements",
    "Tap",
    # a whole call without I/O
    "Exchange",
    "Listing",
    "Counting",
    "READ_STREAM",
    "ReadStream",
    "ReadError",
    "Retry",
    "Endpoint",
    "Secret",
    "HttpRequest",
    "ResponseHead",
    "Compatibility",
    "Compat",
    # rounds of model and tools without I/O
    "ToolLoop",
    "LoopLimits",
    "LoopPhase",
    "LoopStep",
    "CallModel",
    "RunTools",
    "AskApproval",
    "Finished",
    "Generation",
    "GenerationEvent",
    "GenerationOutcome",
    "Progress",
    "RoundEvent",
    "RoundResults",
    "Prices",
    "cost",
    # what is found out: a recording explained, a history judged
    "explain",
    "Explanation",
    "Attempt",
    "Finding",
    "check_history",
    "HistoryFault",
    "HistoryFaultCode",
    "portable_tool_id",
    "with_portable_tool_ids",
    # what can go wrong
    "SvirError",
    "ErrorKind",
    "TransportError",
    "ResponseTimeoutError",
    "RateLimitedError",
    "TruncatedStreamError",
    "AuthenticationError",
    "ContextOverflowError",
    "ContentFilterError",
    "ProtocolError",
    "ServerError",
    "UnsupportedError",
    "ResponseLimitError",
    "AttachmentError",
    "MaxRoundsError",
    "MaxToolCallsError",
    "SessionInUseError",
    "StoreError",
    "ConfigError",
    # itself
    "__version__",
)
