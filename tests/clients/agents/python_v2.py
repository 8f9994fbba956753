"""A small agent on the Python SDK 2.x: it does what the scripted model says. python python_v2.py MCP_URL MODEL_URL"""

import asyncio
import json
import sys
from urllib.request import Request, urlopen

from mcp import Client
from mcp_types import Implementation


async def main(mcp_url, model_url):
    async with Client(mcp_url, client_info=Implementation(name="python-sdk-v2", version="1")) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        results = []
        while True:
            body = json.dumps({"tools": tools, "results": results}).encode()
            answer = await asyncio.to_thread(lambda body=body: urlopen(Request(f"{model_url}/plain", body)).read())
            call = json.loads(answer)
            if not call:
                return
            try:
                result = await client.call_tool(call["tool"], call["arguments"])
                results.append("\n".join(getattr(item, "text", "") for item in result.content))
            except Exception as error:
                results.append(f"{type(error).__name__}: {error}")


asyncio.run(main(*sys.argv[1:]))
