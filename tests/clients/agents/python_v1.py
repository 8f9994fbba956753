"""A small agent on the Python SDK 1.x: it does what the scripted model says. python python_v1.py MCP_URL MODEL_URL"""

import asyncio
import json
import sys
from urllib.request import Request, urlopen

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation


async def main(mcp_url, model_url):
    me = Implementation(name="python-sdk-v1", version="1")
    async with (
        streamable_http_client(mcp_url) as (read, write, *_),
        ClientSession(read, write, client_info=me) as session,
    ):
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        results = []
        while True:
            body = json.dumps({"tools": tools, "results": results}).encode()
            answer = await asyncio.to_thread(lambda body=body: urlopen(Request(f"{model_url}/plain", body)).read())
            call = json.loads(answer)
            if not call:
                return
            try:
                result = await session.call_tool(call["tool"], call["arguments"])
                results.append("\n".join(getattr(item, "text", "") for item in result.content))
            except Exception as error:
                results.append(f"{type(error).__name__}: {error}")


asyncio.run(main(*sys.argv[1:]))
