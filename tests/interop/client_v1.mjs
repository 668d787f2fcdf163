// The first generation of the TypeScript SDK: its arguments are the gateway's entry as in mcp.json,
// and the two calls, both as JSON; it prints the results.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { see, transportOf } from "./seeing.mjs";

const transports = { SSEClientTransport, StdioClientTransport, StreamableHTTPClientTransport };
const [entry, calls] = process.argv.slice(2).map((word) => JSON.parse(word));
const client = new Client({ name: "typescript-v1", version: "1.0.0" });
await see(client, transportOf(entry, transports), calls);
