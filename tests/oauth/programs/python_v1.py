"""A client on the Python SDK 1.x that connects with OAuth. python python_v1.py MCP_URL

It prints the address to open, and reads from standard input the address to which the browser was sent back.
"""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Memory(TokenStorage):
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        print("TOKEN", tokens.access_token, flush=True)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def line():
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def show(address):
    print("OPEN", address, flush=True)


async def came_back():
    given = {name: values[0] for name, values in parse_qs(urlsplit(await line()).query).items()}
    return given["code"], given.get("state")


async def main(mcp_url):
    about = OAuthClientMetadata(client_name="Python SDK 1", redirect_uris=["http://localhost:3030/callback"])
    auth = OAuthClientProvider(mcp_url, about, Memory(), show, came_back)
    async with (
        httpx.AsyncClient(auth=auth, timeout=60) as http,
        streamable_http_client(mcp_url, http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        while True:
            made = await session.call_tool("thread_create", {"topic": "from the Python SDK 1"})
            assert not made.isError, made
            print("DONE", len((await session.list_tools()).tools), flush=True)
            if await line() != "again":
                return


asyncio.run(main(*sys.argv[1:]))
