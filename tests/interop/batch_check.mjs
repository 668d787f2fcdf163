// The transport of TypeScript SDK 1.x sends a batch in a session of 2025-03-26; prints the received messages.
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const VERSION = "2025-03-26";
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
const received = new Map();
let wake = () => {};
transport.onmessage = (message) => {
  received.set(message.id, message.result ?? message.error);
  wake();
};
const until = async (...ids) => {
  while (!ids.every((id) => received.has(id))) await new Promise((done) => { wake = done; });
};
const request = (id, method, params = {}) => ({ jsonrpc: "2.0", id, method, params });

await transport.start();
const clientInfo = { name: "batches", version: "1.0.0" };
await transport.send(request(0, "initialize", { protocolVersion: VERSION, capabilities: {}, clientInfo }));
await until(0);
transport.setProtocolVersion(VERSION);
await transport.send([
  { jsonrpc: "2.0", method: "notifications/initialized" },
  request(1, "tools/list"),
  request(2, "tools/call", { name: "s1:echo", arguments: { n: 2 } }),
  request(3, "tools/call", { name: "s1:progress", arguments: {}, _meta: { progressToken: "p" } }),
]);
await until(1, 2, 3);
await transport.close();
console.log(JSON.stringify([
  received.get(0).protocolVersion,
  received.get(1).tools.map((it) => it.name),
  received.get(2).structuredContent,
  received.get(3).content[0].text,
]));
process.exit(0);
