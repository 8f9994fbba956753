"""An agent on pydantic-ai, as docs/guides/clients.md shows it. python pydantic_agents.py MCP_URL MODEL_URL"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main(mcp_url, model_url):
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=f"{model_url}/v1", api_key="none"))
    agent = Agent(model, toolsets=[MCPToolset(mcp_url)])
    async with agent:
        print((await agent.run("Follow the script.")).output)


asyncio.run(main(*sys.argv[1:]))
