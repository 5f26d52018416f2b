// Node's fetch, which is undici.
import { subscribe } from "node:diagnostics_channel";

const base = "http://" + process.argv[2];
const body = Buffer.from("0123456789abcdef".repeat(10 << 16));
const say = (...words) => console.log(...words);

let connections = 0;
subscribe("undici:client:connected", () => connections++);

async function ask(method, path, token, content, more = {}) {
  const before = connections;
  const answer = await fetch(base + path, { method, headers: token ? { "X-Fencing-Token": token } : {}, body: content, ...more });
  return [answer, () => (connections > before ? "fresh" : "kept")];
}

const stream = () => new Blob([body]).stream();
const problem = async (answer) => (await answer.json()).type.split(":").at(-1);

let [answer, at] = await ask("PUT", "/things/a", "5", body);
say("upload", answer.status, await answer.text());

[answer, at] = await ask("PUT", "/things/a", "5", stream(), { duplex: "half" });
say("chunked", answer.status, await answer.text());

[answer, at] = await ask("HEAD", "/things/head");
say("head", answer.status, answer.headers.get("content-length"), (await answer.text()).length);

[answer, at] = await ask("GET", "/things/parts");
say("parts", answer.status);
for await (const part of answer.body) say("part", Buffer.from(part).toString());

[answer, at] = await ask("GET", "/things/large");
say("download", answer.status, (await answer.arrayBuffer()).byteLength);

[answer, at] = await ask("DELETE", "/things/a", "4");
say("refused", answer.status, await problem(answer), at());
[answer, at] = await ask("PUT", "/things/a", "5", "x");
say("again", answer.status, await answer.text(), at());

for (let i = 0; i < 3; i++) {
  [answer, at] = i ? await ask("PUT", "/things/a", "4", stream(), { duplex: "half" }) : await ask("PUT", "/things/a", "4", body);
  say("stale", answer.status, await problem(answer));
  [answer, at] = await ask("PUT", "/things/a", "5", "x");
  say("again", answer.status, await answer.text());
}

[answer, at] = await ask("PUT", "/things/full", "5", body);
say("full", answer.status, await answer.text());
[answer, at] = await ask("PUT", "/things/a", "5", "x");
say("again", answer.status, await answer.text());
process.exit(0);
