// A client on the TypeScript SDK v2 that connects with OAuth. node ts_v2.mjs MCP_URL
// It prints the address to open, and reads from standard input the address to which the browser was sent back.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { createInterface } from "node:readline";

const mcp = new URL(process.argv[2]);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const line = async () => (await lines.next()).value;
const kept = {};
const provider = {
  redirectUrl: "http://localhost:3030/callback",
  clientMetadata: { client_name: "TypeScript SDK v2", redirect_uris: ["http://localhost:3030/callback"] },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => {
    kept.tokens = tokens;
    console.log("TOKEN", tokens.access_token);
  },
  redirectToAuthorization: (address) => console.log("OPEN", String(address)),
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => (kept.discovery = state),
  discoveryState: () => kept.discovery,
};
const first = new StreamableHTTPClientTransport(mcp, { authProvider: provider });
let client = new Client({ name: "ts-v2", version: "1" });
try {
  await client.connect(first);
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
  await first.finishAuth(new URL(await line()).searchParams);
  client = new Client({ name: "ts-v2", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(mcp, { authProvider: provider }));
}
do {
  const made = await client.callTool({ name: "thread_create", arguments: { topic: "from the TypeScript SDK v2" } });
  if (made.isError) throw new Error(JSON.stringify(made));
  console.log("DONE", (await client.listTools()).tools.length);
} while ((await line()) === "again");
await client.close();
process.exit(0);
