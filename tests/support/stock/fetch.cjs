// A seeker with the stock TypeScript client; the same order in and answers out as python_v2.py.
// Packages come from the working directory's node_modules.
const { createRequire } = require("node:module");
const path = require("node:path");
const load = createRequire(path.join(process.cwd(), "seeker.cjs"));

const { wrapFetchWithPayment, x402Client } = load("@x402/fetch");
const { ExactEvmScheme } = load("@x402/evm");
const { privateKeyToAccount } = load("viem/accounts");

async function main() {
  const order = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  const signed = [];
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(order.key)));
  if (order.cap) client.setSpendControls({ maxAmountPerPayment: order.cap });
  client.onAfterPaymentCreation(async (seen) => {
    signed.push(seen.paymentPayload.payload.authorization.nonce);
  });
  const paid = wrapFetchWithPayment(fetch, client);
  const answers = [];
  for (let call = 0; call < order.times; call += 1) {
    try {
      const answer = await paid(order.url, {
        method: order.method,
        headers: { ...order.headers, "content-type": "application/json" },
        body: order.method === "GET" ? undefined : JSON.stringify(order.body),
      });
      const body = await answer.text();
      answers.push({ status: answer.status, headers: Object.fromEntries(answer.headers), body });
    } catch (error) {
      answers.push({ error: `${error.name}: ${error.message}` });
    }
  }
  process.stdout.write(JSON.stringify({ answers, signed }));
}

main();
