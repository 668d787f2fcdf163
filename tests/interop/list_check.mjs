// Both generations of the TypeScript SDK list all items of a gateway; prints the counts.
import { Client as V1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as T1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as V2, StreamableHTTPClientTransport as T2 } from "@modelcontextprotocol/client";

const url = new URL(process.argv[2]);
const seen = [];
for (const [Client, Transport] of [[V1, T1], [V2, T2]]) {
  const client = new Client({ name: "lists", version: "1.0.0" });
  await client.connect(new Transport(url));
  const { tools } = await client.listTools();
  const { resources } = await client.listResources();
  seen.push([tools.map((it) => it.name), resources.map((it) => it.uri)]);
  await client.close();
}
console.log(JSON.stringify(seen));
