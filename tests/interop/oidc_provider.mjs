// npm's oidc-provider as the issuer of JWTs for an MCP resource; its URL is the first line printed.
// Its argument is JSON: the scopes of the resource, and seconds until an access token expires.
// People sign in as NAME@TENANT with any password; tokens name the tenant in tenant_id.
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const { scopes, expiresIn } = JSON.parse(process.argv[2]);

const getResourceServerInfo = (_, resource) => ({
  audience: resource,
  scope: scopes.join(" "),
  accessTokenFormat: "jwt",
  accessTokenTTL: expiresIn,
  jwt: { sign: { alg: "RS256" } },
});

function configuration() {
  return {
    cookies: { keys: ["only in tests"] },
    extraTokenClaims: (_, token) => ({ tenant_id: token.accountId?.split("@")[1] }),
    features: {
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

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  server.on("request", new Provider(url, configuration()).callback());
  console.log(url);
});
