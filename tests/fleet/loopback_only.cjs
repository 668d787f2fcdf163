// Servers of the fleet resolve no name but localhost: Node's fetch knows no proxy, and a test that
// asked a real service would leave this machine, or wait for it.
const dns = require("node:dns");
const { lookup } = dns;
dns.lookup = (name, options, done) => {
  if (["localhost", "127.0.0.1", "::1"].includes(name)) return lookup(name, options, done);
  const failure = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: "ENOTFOUND" });
  process.nextTick(done ?? options, failure);
};
