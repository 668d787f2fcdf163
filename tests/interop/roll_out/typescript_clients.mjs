// Clients of the TypeScript SDK, as python_clients.py: a URL, how many, and a name for them.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout } from "node:timers/promises";

const [url, number, kind] = process.argv.slice(2);
let stopped = false;
process.stdin.on("end", () => (stopped = true)).resume();
const report = (said) => console.log(JSON.stringify(said));

/** Call until stopped, every fourth call long; list again whenever the tools changed. */
async function use(name) {
  const client = new Client({ name, version: "1.0.0" });
  let changed = true;
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (changed = true));
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const wrong = [];
  let calls = 0;
  for (; !stopped; calls += 1) {
    if (changed) {
      changed = false;
      report({ client: name, tools: (await client.listTools()).tools.map((tool) => tool.name) });
    }
    const text = `${name} ${calls}`;
    const isLong = calls % 4 === 0;
    const call = isLong
      ? { name: "s1:sleep", arguments: { seconds: 0.5 } }
      : { name: "s1:echo", arguments: { text } };
    const answer = await client.callTool(call).then(JSON.stringify, String);
    if (!answer.includes(isLong ? "slept" : text)) wrong.push(answer);
    await setTimeout(300);
  }
  await client.close();
  report({ client: name, calls, wrong });
}

await Promise.all(Array.from({ length: Number(number) }, (_, client) => use(`${kind}-${client}`)));
