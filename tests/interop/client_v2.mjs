// The second generation of the TypeScript SDK, in the modern era; see client_v1.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { see, transportOf } from "./seeing.mjs";

const transports = { SSEClientTransport, StdioClientTransport, StreamableHTTPClientTransport };
const [entry, calls] = process.argv.slice(2).map((word) => JSON.parse(word));
const versionNegotiation = { mode: { pin: "2026-07-28" } };
const client = new Client({ name: "typescript-v2", version: "1.0.0" }, { versionNegotiation });
await see(client, transportOf(entry, transports), calls);
