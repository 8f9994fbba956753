"""An agent on openai-agents, as docs/guides/clients.md shows it. python openai_agents.py MCP_URL MODEL_URL"""

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI


async def main(mcp_url, model_url):
    set_tracing_disabled(True)
    model = OpenAIResponsesModel("scripted", AsyncOpenAI(base_url=f"{model_url}/v1", api_key="none"))
    async with MCPServerStreamableHttp({"url": mcp_url}, client_session_timeout_seconds=60) as palaver:
        agent = Agent("scripted", model=model, mcp_servers=[palaver])
        print((await Runner.run(agent, "Follow the script.", max_turns=99)).final_output)


asyncio.run(main(*sys.argv[1:]))
