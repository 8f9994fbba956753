"""A client on the Python SDK 2.x that connects with OAuth. python python_v2.py MCP_URL

It prints the address to open, and reads from standard input the address to which the browser was sent back.
"""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


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
    return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))


async def main(mcp_url):
    about = OAuthClientMetadata(client_name="Python SDK 2", redirect_uris=["http://localhost:3030/callback"])
    auth = OAuthClientProvider(mcp_url, about, Memory(), show, came_back)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        Client(streamable_http_client(mcp_url, http_client=http)) as client,
    ):
        while True:
            made = await client.call_tool("thread_create", {"topic": "from the Python SDK 2"})
            assert not made.is_error, made
            print("DONE", len((await client.list_tools()).tools), flush=True)
            if await line() != "again":
                return


asyncio.run(main(*sys.argv[1:]))
