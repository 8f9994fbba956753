"""The tools, resources and prompts that the official MCP conformance suite asks a server for, behind palaver's own door.

What palaver does itself goes its usual way: text, refusals and progress are operations, plain prompts are prompts like
ours. What it has no use for (pictures, questions back to the client, subscriptions) is answered here, but comes in and
goes out through the same guard, transports and server object. `install()` must run before the server starts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from palaver import operations
from palaver.app import App
from palaver.doors.mcp import requests as mcp_requests
from palaver.doors.mcp import server as mcp
from palaver.doors.mcp import tools
from palaver.doors.mcp.connection import Context
from palaver.errors import Refused
from palaver.model.people import Caller
from palaver.model.requests import Request
from palaver.operations import toolsets
from palaver.operations.bus import agent_prompts
from palaver.operations.operation import Tool, operation
from palaver.store.workspaces import Workspace

Params = types.CallToolRequestParams
Answer = types.CallToolResult | types.InputRequiredResult
Deed = Callable[["FixtureDoor", Context, Params], Awaitable[Answer]]


def install() -> None:
    """From now on the MCP door is the one with the fixtures."""
    own: Any = mcp_requests
    server: Any = mcp
    fixtures = (test_simple_text, test_error_handling, test_tool_with_progress)
    for module in (operations, tools, toolsets):
        listing: Any = module
        listing.OPERATIONS = (*listing.OPERATIONS, *fixtures)
    tools.tools_by_name.cache_clear()
    own.PROGRESS_SECONDS, server.McpDoor = 0.03, FixtureDoor
    ours: Any = agent_prompts
    ours.PROMPTS = (*ours.PROMPTS, *PROMPTS)


# What palaver does itself


@operation(Tool("test_simple_text", is_text=True))
async def test_simple_text(here: Workspace, caller: Caller, ask: Request) -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@operation(Tool("test_error_handling", is_text=True))
async def test_error_handling(here: Workspace, caller: Caller, ask: Request) -> str:
    """Refuse."""
    raise Refused("This tool intentionally returns an error for testing")


@operation(Tool("test_tool_with_progress", is_text=True))
async def test_tool_with_progress(here: Workspace, caller: Caller, ask: Request) -> str:
    """Take a while: long enough for the door to say several times that it is still at it, also on a busy machine."""
    for _ in range(8):
        await asyncio.sleep(0.05)
    return "Done."


PROMPTS = (
    agent_prompts.BuiltInPrompt("test_simple_prompt", "A prompt as it is.", (), "This is a simple prompt for testing."),
    agent_prompts.BuiltInPrompt(
        "test_prompt_with_arguments",
        "A prompt with two arguments.",
        (agent_prompts.Argument("arg1", "The first."), agent_prompts.Argument("arg2", "The second.")),
        "Prompt with arguments: arg1='§arg1§', arg2='§arg2§'",
    ),
)


# Contents


def _png() -> str:
    """One red point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    lines = zlib.compress(b"\0\xff\0\0")
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")
    return base64.b64encode(whole).decode()


def _wav() -> str:
    """One silent sample."""
    shape = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)
    whole = b"WAVEfmt " + struct.pack("<I", len(shape)) + shape + b"data" + struct.pack("<I", 2) + b"\0\0"
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(whole)) + whole).decode()


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(text)])


def _embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=contents)


PNG, WAV = _png(), _wav()
IMAGE = types.ImageContent(type="image", data=PNG, mime_type="image/png")
CONTENTS: dict[str, list[types.ContentBlock]] = {
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        IMAGE,
        _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}


# Notes on the way, and questions back to the client (until 2025-11-25)


async def _log(ctx: Context, *notes: str) -> None:
    for n, note in enumerate(notes):
        await asyncio.sleep(0.05 if n else 0)
        await ctx.session.send_log_message("info", note, related_request_id=ctx.request_id)


async def _with_logging(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    await _log(ctx, "Tool execution started", "Tool processing data", "Tool execution completed")
    return _said("Said three things on the way.")


async def _reconnection(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    """Break the stream off; the answer is fetched by coming back."""
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return _said("Reconnection test completed successfully.")


async def _sampling(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    prompt = str((params.arguments or {}).get("prompt", ""))
    asked = [types.SamplingMessage(role="user", content=_text(prompt))]
    result = await ctx.session.create_message(asked, max_tokens=100, related_request_id=ctx.request_id)
    return _said(f"LLM response: {getattr(result.content, 'text', '')}")


def _eliciting(message: str | None, properties: dict[str, Any], *required: str) -> Deed:
    async def elicit(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
        said = message or str((params.arguments or {}).get("message", ""))
        schema = {"type": "object", "properties": properties, "required": list(required)}
        result = await ctx.session.elicit_form(said, schema, ctx.request_id)
        content = json.dumps(result.content or {})
        return _said(f"Elicitation completed: action={result.action}, content={content}")

    return elicit


_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
PERSON = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}


# Questions back to the client, carried by the result (from 2026-07-28)


def _form(message: str, name: str, kind: str = "string") -> types.InputRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str, most: int = 100) -> types.InputRequest:
    asked = [types.SamplingMessage(role="user", content=_text(text))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=asked, max_tokens=most))


def _roots() -> types.InputRequest:
    return types.ListRootsRequest(params=types.RequestParams())


def _asking(requests: dict[str, Any], state: str | None, done: Callable[[Any], str]) -> Deed:
    """Ask until everything asked for is there; `state` must come back as it was."""

    async def ask(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
        given: Any = params.input_responses or {}
        missing = {key: request for key, request in requests.items() if key not in given}
        if missing or params.request_state != state:
            return types.InputRequiredResult(input_requests=missing or requests, request_state=state)
        return _said(done(given))

    return ask


async def _rounds(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    given: Any = params.input_responses or {}
    if "step1" in given and params.request_state == "round 1":
        name = given["step1"].content["name"]
        question = {"step2": _form("Step 2: What is your favorite color?", "color")}
        return types.InputRequiredResult(input_requests=question, request_state=f"round 2 {name}")
    if "step2" in given and (params.request_state or "").startswith("round 2 "):
        assert params.request_state is not None
        return _said(f"{params.request_state.removeprefix('round 2 ')} likes {given['step2'].content['color']}.")
    question = {"step1": _form("Step 1: What is your name?", "name")}
    return types.InputRequiredResult(input_requests=question, request_state="round 1")


async def _capabilities(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    """Ask only in the ways the client has said it knows."""
    able = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, Any] = {}
    if able.sampling is not None:
        requests["capital_question"] = _sample("What is the capital of France?")
    if able.elicitation is not None:
        requests["user_name"] = _form("What is your name?", "name")
    if able.roots is not None:
        requests["client_roots"] = _roots()
    return types.InputRequiredResult(input_requests=requests) if requests else _said("There is nothing I could ask.")


async def _missing_capability(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        needs: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs sampling.", needs)
    return _said("The client can sample.")


# What the client is told of by itself


async def _tools_change(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    await door.news.publish(ToolsListChanged())
    return _said("Told whoever listens.")


async def _prompts_change(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    await door.news.publish(PromptsListChanged())
    return _said("Told whoever listens.")


async def _echo(door: FixtureDoor, ctx: Context, params: Params) -> Answer:
    return _said(json.dumps(params.arguments or {}))


NAME = {"user_name": _form("What is your name?", "name")}
CONFIRM = {"confirm": _form("Please confirm", "ok", "boolean")}

TOOLS: dict[str, Deed] = {
    "test_tool_with_logging": _with_logging,
    "test_logging_tool": _with_logging,
    "test_reconnection": _reconnection,
    "test_sampling": _sampling,
    "test_elicitation": _eliciting(None, PERSON, "username", "email"),
    "test_elicitation_sep1034_defaults": _eliciting("Who are you?", DEFAULTS),
    "test_elicitation_sep1330_enums": _eliciting("Choose.", ENUMS),
    "test_input_required_result_elicitation": _asking(
        NAME, None, lambda given: f"Hello, {given['user_name'].content['name']}!"
    ),
    "test_streaming_elicitation": _asking(NAME, None, lambda given: "Thank you."),
    "test_input_required_result_sampling": _asking(
        {"capital_question": _sample("What is the capital of France?")},
        None,
        lambda given: given["capital_question"].content.text,
    ),
    "test_input_required_result_list_roots": _asking(
        {"client_roots": _roots()},
        None,
        lambda given: "Roots: " + ", ".join(str(root.uri) for root in given["client_roots"].roots),
    ),
    "test_input_required_result_request_state": _asking(CONFIRM, "state of one", lambda given: "state-ok"),
    "test_input_required_result_tampered_state": _asking(CONFIRM, "state of two", lambda given: "state-ok"),
    "test_input_required_result_multiple_inputs": _asking(
        {**NAME, "greeting": _sample("Generate a greeting", 50), "client_roots": _roots()},
        "state of three",
        lambda given: f"{given['greeting'].content.text}, {given['user_name'].content['name']}",
    ),
    "test_input_required_result_multi_round": _rounds,
    "test_input_required_result_capabilities": _capabilities,
    "test_missing_capability": _missing_capability,
    "test_trigger_tool_change": _tools_change,
    "test_trigger_prompt_change": _prompts_change,
    "json_schema_2020_12_tool": _echo,
    "test_header_tool": _echo,
}

_STRING = {"type": "string"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": {"type": "object", "properties": {"prompt": _STRING}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": _STRING}, "required": ["message"]},
    "test_header_tool": {"type": "object", "properties": {"region": {**_STRING, "x-mcp-header": "Region"}}},
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": _STRING}}},
        "properties": {"name": _STRING, "address": {"$ref": "#/$defs/address"}, "phone": _STRING, "email": _STRING},
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"required": ["phone"]},
        "then": {"properties": {"phone": {"minLength": 3}}},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}

RESOURCES = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://watched-resource": ("text/plain", "What is watched."),
}
BINARY = "test://static-binary"
TEMPLATE = "test://template/{id}/data"


class FixtureDoor(mcp.McpDoor):
    """palaver's MCP door, with the fixtures beside everything else."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.news = InMemorySubscriptionBus()
        self._subscribed: set[str] = set()
        security = RequestStateSecurity.ephemeral()
        self.server.middleware.append(RequestStateBoundary(security, default_audience=self.server.name))
        self.server.get_tool_input_schema = lambda name: SCHEMAS.get(name) or tools.input_schema_of(name)
        handle = self.server.add_request_handler
        handle("completion/complete", types.CompleteRequestParams, self._complete)
        handle("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        handle("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        handle("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        handle("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(self.news))
        self._manager.event_store, self._manager.retry_interval = LibraryItem(), 50

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        found = await super()._list_tools(ctx, params)
        for name in (*CONTENTS, *TOOLS):
            schema = SCHEMAS.get(name, {"type": "object", "properties": {}})
            found.tools.append(types.Tool(name=name, description=f"Fixture {name}.", input_schema=schema))
        return found

    async def _call_tool(self, ctx: Context, params: Params) -> Answer:
        if params.name in CONTENTS:
            return types.CallToolResult(content=CONTENTS[params.name])
        if params.name in TOOLS:
            return await TOOLS[params.name](self, ctx, params)
        return await super()._call_tool(ctx, params)

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        found = await super()._list_resources(ctx, params)
        for uri in (*RESOURCES, BINARY):
            found.resources.append(types.Resource(uri=uri, name=uri[7:], description=f"Fixture {uri}."))
        return found

    async def _list_resource_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        found = await super()._list_resource_templates(ctx, params)
        template = types.ResourceTemplate(uri_template=TEMPLATE, name="template", description="A fixture by its id.")
        found.resource_templates.append(template)
        return found

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        contents: types.TextResourceContents | types.BlobResourceContents
        if uri == BINARY:
            contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
        elif uri in RESOURCES:
            mime_type, text = RESOURCES[uri]
            contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        elif uri.startswith("test://template/") and uri.endswith("/data"):
            id = uri.split("/")[3]
            text = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
            contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
        else:
            return await super()._read_resource(ctx, params)
        return types.ReadResourceResult(contents=[contents])

    async def _list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        found = await super()._list_prompts(ctx, params)
        uri = types.PromptArgument(name="resourceUri", description="What to embed.", required=True)
        for name, arguments in (
            ("test_prompt_with_embedded_resource", [uri]),
            ("test_prompt_with_image", []),
            ("test_input_required_result_prompt", []),
        ):
            found.prompts.append(types.Prompt(name=name, description=f"Fixture {name}.", arguments=arguments))
        return found

    async def _get_prompt(  # type: ignore[override]
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given = params.arguments or {}
        match params.name:
            case "test_prompt_with_embedded_resource":
                embedded = _embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
                return _prompting(embedded, _text("Please process the embedded resource above."))
            case "test_prompt_with_image":
                return _prompting(IMAGE, _text("Please analyze the image above."))
            case "test_input_required_result_prompt":
                answers: Any = params.input_responses or {}
                if "user_context" not in answers:
                    asked = {"user_context": _form("What context should the prompt use?", "context")}
                    return types.InputRequiredResult(input_requests=asked)
                return _prompting(_text(f"Context: {answers['user_context'].content['context']}"))
            case _:
                return await super()._get_prompt(ctx, params)

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.discard(str(params.uri))
        return types.EmptyResult()


def _prompting(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


class LibraryItem(EventStore):
    """Everything that was sent, for whoever comes back for the rest of it."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream = self._sent[last - 1][0]
        for n, (stream_id, message) in enumerate(self._sent[last:], start=last + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(n)))
        return stream
