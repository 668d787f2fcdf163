// npm's oidc-provider as the issuer of JWTs for an MCP resource; its URL is the first line printed.
// Its argument is JSON: the scopes of the resource; seconds until an access token expires; initial
// clients; clients whose tokens are for another audience than they request;
// and a file to which each token request and each registration is added as a line of JSON.
// Users sign in as NAME@TENANT with any password; tokens name the tenant in tenant_id.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const { scopes, expiresIn, clients, audiences, record } = JSON.parse(process.argv[2]);

const getResourceServerInfo = (_, resource, client) => ({
  audience: audiences[client.clientId] ?? resource,
  scope: scopes.join(" "),
  accessTokenFormat: "jwt",
  accessTokenTTL: expiresIn,
  jwt: { sign: { alg: "RS256" } },
});

function configuration() {
  return {
    clients,
    cookies: { keys: ["only in tests"] },
    extraTokenClaims: (_, token) => ({ tenant_id: token.accountId?.split("@")[1] }),
    features: {
      clientCredentials: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: "draft-02" },
      deviceFlow: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo,
        useGrantedResource: () => true,
      },
      revocation: { enabled: true },
    },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    pkce: { required: () => true },
    rotateRefreshToken: true,
    scopes: ["openid", "offline_access", ...scopes],
  };
}

// Without this the polling interval would be five seconds.
async function named(ctx, next) {
  await next();
  if (ctx.path === "/device/auth" && ctx.status === 200) ctx.body.interval = 1;
}

async function recorded(ctx, next) {
  await next();
  if (record && ctx.method === "POST" && ["/token", "/reg"].includes(ctx.path)) {
    const { oidc, path, status, body: answer } = ctx;
    const client = oidc?.client?.clientId;
    const line = JSON.stringify({ path, client, request: oidc?.body ?? {}, status, answer });
    appendFileSync(record, `${line}\n`);
  }
}

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, configuration());
  provider.use(recorded);
  provider.use(named);
  server.on("request", provider.callback());
  console.log(url);
});
