"""A scripted stand-in for a language model on the loopback.

It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, and a plain form for the SDK scripts.
A script is a generator: it yields tool calls and gets the text that the client sent back to the model.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call, under palaver's own name for the tool."""

    tool: str
    arguments: Json


Script = Generator[Call, str, None]


@dataclass(frozen=True)
class Tool:
    """A tool as the client offers it to the model."""

    name: str
    namespace: str = ""
    """Codex puts the tools of an MCP server under a namespace."""

    schema: Json = field(default_factory=dict)
    takes_text: bool = False
    """It takes a text instead of arguments, as Codex's apply_patch does."""


@dataclass
class Model:
    """One client's model: what it was asked, and where its script is."""

    script: Script
    base_url: str = ""
    requests: list[tuple[str, Json]] = field(default_factory=list)
    """Path and body of every request, for the checks and for finding out why one failed."""

    tools: dict[str, Tool] = field(default_factory=dict)
    """The tools of palaver that the client offered, by palaver's own names."""

    once: dict[str, Call] = field(default_factory=dict)
    """Calls that it makes beside the script, each as soon as it reads these words."""

    replies: list[Call | None] = field(default_factory=list)
    error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def reply(self, offered: list[Tool], results: list[str]) -> Call | None:
        """The next call of the script, or None for a closing text.

        A request with the same results as an earlier one is a retry and gets the same reply. A request without
        palaver's tools is a side request, such as one for a title; but for some models Codex hides them at first.
        """
        tools = {name: tool for tool in offered if (name := _own_name(tool.name))}
        if "bus_connect" not in tools and "apply_patch" not in tools:
            return None
        with self.lock:
            self.tools = self.tools or tools
            asked = json.dumps(self.requests[-1][1]) if self.once else ""
            if words := next((words for words in self.once if words in asked), ""):
                return self.once.pop(words)
            while len(self.replies) <= len(results):
                self.replies.append(self._advance(results[len(self.replies) - 1] if self.replies else None))
            return self.replies[len(results)]

    def _advance(self, result: str | None) -> Call | None:
        try:
            return next(self.script) if result is None else self.script.send(result)
        except StopIteration:
            return None
        except Exception as error:
            self.error = error
            return None


def _own_name(name: str) -> str:
    """palaver's name for a tool: mcp__palaver__msg_post, palaver_msg_post and msg_post are all msg_post."""
    return re.sub(r"^(mcp_+)?palaver[_.]+", "", name) if "palaver" in name else name


def _text_of(content: Any) -> str:
    """The text of a tool result, however the client wrapped it."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text_of(item) for item in content)
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return str(content["text"])
    if isinstance(content, dict) and set(content) & {"output", "error"}:
        return _text_of(content.get("output") or content["error"])
    return json.dumps(content, ensure_ascii=False)


SEARCH_ID = "toolu_search"
CLOSING = "The script is at its end."


# Each dialect: the tools and results in a request, and the reply as server-sent events or as one JSON object.


def _anthropic(model: Model, body: Json, path: str) -> Iterator[tuple[str, Json]]:
    offered = [Tool(t["name"], schema=t.get("input_schema", {})) for t in body.get("tools", []) if "name" in t]
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    results = [b for b in blocks if b["type"] == "tool_result" and b["tool_use_id"] != SEARCH_ID]
    call = _search_for_tools(body, offered) or model.reply(offered, [_text_of(b.get("content")) for b in results])
    usage = {"input_tokens": 9, "output_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    head: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "usage": usage}
    if call is None:
        block: Json = {"type": "text", "text": CLOSING}
        delta: Json = {"type": "text_delta", "text": CLOSING}
    else:
        is_search = call.tool == "ToolSearch"
        name = "ToolSearch" if is_search else model.tools[call.tool].name
        number = SEARCH_ID if is_search else f"toolu_{len(results)}"
        block = {"type": "tool_use", "id": number, "name": name, "input": call.arguments}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    if not body.get("stream"):
        yield "", {**head, "content": [block], **end}
        return
    empty = {**block, "text": ""} if call is None else {**block, "input": {}}
    yield "message_start", {"message": {**head, "content": [], "stop_reason": None, "stop_sequence": None}}
    yield "content_block_start", {"index": 0, "content_block": empty}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": end, "usage": {"output_tokens": 9}}
    yield "message_stop", {}


def _search_for_tools(body: Json, offered: list[Tool]) -> Call | None:
    """Claude Code names MCP tools in a message and offers them only after the model has searched for them."""
    names = {tool.name for tool in offered}
    named = sorted(set(re.findall(r"mcp__palaver__\w+", json.dumps(body["messages"]))))
    if not named or "ToolSearch" not in names or any(name.endswith("__bus_connect") for name in names):
        return None
    return Call("ToolSearch", {"query": f"select:{','.join(named)}", "max_results": len(named)})


def _responses(model: Model, body: Json, path: str) -> Iterator[tuple[str, Json]]:
    offered = []
    for tool in body.get("tools", []):
        inner = tool.get("tools", []) if tool.get("type") == "namespace" else [tool]
        namespace = tool["name"] if tool.get("type") == "namespace" else ""
        offered += [
            Tool(t["name"], namespace, t.get("parameters") or {}, t.get("type") == "custom")
            for t in inner
            if t.get("name")
        ]
    outputs = ("function_call_output", "custom_tool_call_output")
    results = [_text_of(i["output"]) for i in body["input"] if i.get("type") in outputs]
    call = model.reply(offered, results)
    number = len(results)
    if call is None:
        text = {"type": "output_text", "text": CLOSING, "annotations": []}
        item: Json = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [text]}
    else:
        tool = model.tools[call.tool]
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": tool.name}
        item |= {"arguments": json.dumps(call.arguments)}
        if tool.takes_text:
            item |= {"type": "custom_tool_call", "id": f"ctc_{number}", "input": call.arguments["input"]}
            del item["arguments"]
        item |= {"namespace": tool.namespace} if tool.namespace else {}
    item["status"] = "completed"
    usage: Json = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole: Json = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": body.get("model")}
    whole |= {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    done = {**whole, "status": "completed", "output": [item], "usage": usage}
    if not body.get("stream"):
        yield "", done
        return
    yield "response.created", {"response": {**whole, "status": "in_progress", "output": []}}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": done}


def _chat(model: Model, body: Json, path: str) -> Iterator[tuple[str, Json]]:
    functions = [t["function"] for t in body.get("tools") or [] if "function" in t]
    offered = [Tool(f["name"], schema=f.get("parameters") or {}) for f in functions]
    results = [_text_of(m["content"]) for m in body["messages"] if m["role"] == "tool"]
    call = model.reply(offered, results)
    message: Json = {"role": "assistant", "content": CLOSING}
    if call is not None:
        function = {"name": model.tools[call.tool].name, "arguments": json.dumps(call.arguments)}
        one = {"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [one]}
    finish = "tool_calls" if call else "stop"
    head: Json = {"id": "chat_1", "created": 0, "model": body.get("model")}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        yield "", {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return
    head["object"] = "chat.completion.chunk"
    yield "-", {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    yield "-", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}


def _gemini(model: Model, body: Json, path: str) -> Iterator[tuple[str, Json]]:
    functions = [f for t in body.get("tools") or [] for f in t.get("functionDeclarations", [])]
    offered = [Tool(f["name"], schema=f.get("parametersJsonSchema") or f.get("parameters") or {}) for f in functions]
    parts = [p for c in body["contents"] for p in c.get("parts", [])]
    answers = [p["functionResponse"] for p in parts if "functionResponse" in p]
    call = model.reply(offered, [_text_of(a["response"]) for a in answers])
    part: Json = {"text": CLOSING}
    if call is not None:
        part = {"functionCall": {"name": model.tools[call.tool].name, "args": call.arguments}}
        part |= {"thoughtSignature": "c2lnbmF0dXJl"}
    elif body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        part = {"text": json.dumps({"reasoning": "scripted", "next_speaker": "user", "model_choice": "flash"})}
    candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
    yield "-" if "stream" in path else "", {"candidates": [candidate], "usageMetadata": usage}


def _plain(model: Model, body: Json, path: str) -> Iterator[tuple[str, Json]]:
    call = model.reply([Tool(name) for name in body["tools"]], body["results"])
    yield "", {"tool": model.tools[call.tool].name, "arguments": call.arguments} if call else {}


def _count(model: Model, body: Json, path: str) -> Iterator[tuple[str, Json]]:
    yield "", {"input_tokens": 9, "totalTokens": 9}


DIALECTS: tuple[tuple[str, Callable[[Model, Json, str], Iterator[tuple[str, Json]]]], ...] = (
    (r"/messages/count_tokens|:countTokens", _count),
    (r"/messages", _anthropic),
    (r"/responses", _responses),
    (r"/chat/completions", _chat),
    (r":(stream)?[gG]enerateContent", _gemini),
    (r"/plain", _plain),
)


@contextmanager
def start_model(script: Script) -> Iterator[Model]:
    """A model that plays this script, on a port of its own."""
    model = Model(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            model.requests.append((self.path, body))
            for pattern, dialect in DIALECTS:
                if re.search(pattern, self.path):
                    return self._answer(list(dialect(model, body, self.path)))
            return self._send(404, "application/json", b"{}")

        def do_GET(self) -> None:
            model.requests.append((self.path, {}))
            listed = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]
            self._send(200, "application/json", json.dumps({"object": "list", "data": listed}).encode())

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def _answer(self, events: list[tuple[str, Json]]) -> None:
            if events[0][0] == "":
                return self._send(200, "application/json", json.dumps(events[0][1]).encode())
            lines = []
            for name, data in events:
                typed = data if name == "-" else {"type": name, **data}
                lines.append(("" if name == "-" else f"event: {name}\n") + f"data: {json.dumps(typed)}\n\n")
            if "/chat/completions" in self.path:
                lines.append("data: [DONE]\n\n")
            return self._send(200, "text/event-stream", "".join(lines).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the requests are recorded."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.base_url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
