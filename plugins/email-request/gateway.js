// Stands in for a mail gateway: `node gateway.js [PORT]` prints each mail, once for each idempotency key. Whom it does not like is
// refused (`nobody@…`, 422), and whom it cannot reach is tried for ever (`away@…`, 503).

import { createServer } from "node:http";

const sent = new Map();

function answer(key, { to, template, locale }) {
  if (to.startsWith("nobody@")) return [422, { error: `no such mailbox: ${to}` }];
  if (to.startsWith("away@")) return [503, { error: "try again" }];
  if (!sent.has(key)) {
    sent.set(key, `m-${sent.size + 1}`);
    console.log(`${sent.get(key)}: ${template} (${locale}) to ${to}, key ${key}`);
  }
  return [202, { id: sent.get(key) }];
}

const server = createServer(async (request, response) => {
  try {
    const body = JSON.parse((await request.toArray()).join(""));
    const [code, said] =
      request.method === "POST" && request.url === "/messages"
        ? answer(request.headers["idempotency-key"], body)
        : [404, {}];
    response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(said));
  } catch (error) {
    response.writeHead(400).end(`${error}`);
  }
});

const port = Number(process.argv[2] ?? 8090);
server.listen(port, "127.0.0.1", () => console.log(`mail gateway on http://127.0.0.1:${port}`));
