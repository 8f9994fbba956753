// A small agent on the TypeScript SDK v1: it does what the scripted model says. node ts_v1.mjs MCP_URL MODEL_URL
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [mcp, model] = process.argv.slice(2);
const client = new Client({ name: "ts-sdk-v1", version: "1" });
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
await transport.terminateSession();
await client.close();
