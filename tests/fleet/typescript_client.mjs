// The first generation of the TypeScript SDK lists all tools and calls three; see
// framework_clients.py. Its arguments are the gateway's URL and the calls as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, calls] = process.argv.slice(2);
const client = new Client({ name: "fleet", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
const given = [];
for (const [name, args] of JSON.parse(calls)) {
  given.push(await client.callTool({ name, arguments: args }));
}
await client.close();
const [plain, structured, error] = given;
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name).sort(),
    plain: plain.content[0].text,
    structured: structured.structuredContent,
    error: error.isError && error.content[0].text,
  }),
);
