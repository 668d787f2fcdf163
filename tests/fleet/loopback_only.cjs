// Servers of the fleet resolve only localhost. Node's fetch ignores proxies, so a test could
// otherwise reach a real service, or wait for it.
const dns = require("node:dns");
const { lookup } = dns;
dns.lookup = (name, options, done) => {
  if (["localhost", "127.0.0.1", "::1"].includes(name)) return lookup(name, options, done);
  const failure = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: "ENOTFOUND" });
  process.nextTick(done ?? options, failure);
};
