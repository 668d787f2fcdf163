// A server of the TypeScript SDK over streamable HTTP. Arguments: the port, and the response to
// a request of an unknown session: "sdk" for the SDK's, otherwise a status and, after a colon,
// the message of a JSON-RPC error without an id. The tool `echo` returns its text.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const [port, unknown] = process.argv.slice(2);
const [status, message] = unknown.split(":");
const sessions = new Map();

async function open() {
  const server = new McpServer({ name: "sessions", version: "1.0.0" });
  server.registerTool("echo", { inputSchema: { text: z.string() } }, ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await server.connect(transport);
  return transport;
}

async function bodyOf(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text ? JSON.parse(text) : undefined;
}

createServer(async (request, response) => {
  const body = await bodyOf(request);
  const id = request.headers["mcp-session-id"];
  const known = sessions.get(id);
  if (known !== undefined || id === undefined || unknown === "sdk") {
    await (known ?? (await open())).handleRequest(request, response, body);
    return;
  }
  response.writeHead(Number(status), { "content-type": message ? "application/json" : "text/plain" });
  const error = { jsonrpc: "2.0", id: null, error: { code: -32000, message } };
  response.end(message ? JSON.stringify(error) : "");
}).listen(Number(port), "127.0.0.1");
