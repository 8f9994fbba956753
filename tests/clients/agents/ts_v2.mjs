// A small agent on the TypeScript SDK v2, 2026-07-28 where the server has it: it does what the scripted model says. node ts_v2.mjs MCP_URL MODEL_URL
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [mcp, model] = process.argv.slice(2);
const client = new Client({ name: "ts-sdk-v2", version: "1" }, { versionNegotiation: { mode: "auto" } });
const transport = new StreamableHTTPClientTransport(new URL(mcp));
await client.connect(transport);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const results = [];
for (;;) {
  const body = JSON.stringify({ tools, results });
  const call = await (await fetch(`${model}/plain`, { method: "POST", body })).json();
  if (!call.tool) break;
  try {
    const result = await client.callTool({ name: call.tool, arguments: call.arguments });
    results.push(result.content.map((item) => item.text ?? "").join("\n"));
  } catch (error) {
    results.push(String(error));
  }
}
await client.close();
