// The second generation of the TypeScript SDK, with automatic sign-in: its arguments are those
// of client_v2. It prints the browser's target, and reads the callback address.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { createInterface } from "node:readline";
import { see } from "./seeing.mjs";

const [entry, calls] = process.argv.slice(2).map((word) => JSON.parse(word));
const kept = {};
const state = "only in tests";
const provider = {
  redirectUrl: "http://127.0.0.1:1/callback",
  clientMetadata: {
    client_name: "typescript-v2",
    redirect_uris: ["http://127.0.0.1:1/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
  },
  state: () => state,
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  redirectToAuthorization: (url) => console.log(url.href),
};
const transport = () => new StreamableHTTPClientTransport(new URL(entry.url), { authProvider: provider });

function client() {
  const versionNegotiation = { mode: { pin: "2026-07-28" } };
  return new Client({ name: "typescript-v2", version: "1.0.0" }, { versionNegotiation });
}

/** Sign in after the 401 of a first request. */
async function signIn() {
  const refused = transport();
  try {
    await client().connect(refused);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    for await (const line of createInterface(process.stdin)) {
      const { searchParams } = new URL(line);
      if (searchParams.get("state") !== state) throw new Error("the state is another");
      await refused.finishAuth(searchParams);
      return;
    }
  }
  throw new Error("no sign-in was needed");
}

await signIn();
await see(client(), transport(), calls);
process.stdin.destroy();
