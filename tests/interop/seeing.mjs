// Shared code for both generations of the TypeScript SDK.

/** Create the transport that an mcp.json entry names. */
export function transportOf(entry, transports) {
  if (entry.command) return new transports.StdioClientTransport(entry);
  const url = new URL(entry.url);
  return entry.transport === "sse"
    ? new transports.SSEClientTransport(url)
    : new transports.StreamableHTTPClientTransport(url);
}

/** List and call, and print the results. */
export async function see(client, transport, calls) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const call = ([name, given]) => client.callTool({ name, arguments: given });
  const section = await call(calls.section);
  const echo = await call(calls.echo);
  await client.close();
  const seen = {
    tools: tools.map((tool) => tool.name).sort(),
    title: section.structuredContent.title,
    echo: echo.structuredContent,
  };
  console.log(JSON.stringify(seen));
}
