// Node's http module, with an agent that keeps one connection.
import http from "node:http";

const base = "http://" + process.argv[2];
const body = Buffer.from("0123456789abcdef".repeat(10 << 16));
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const say = (...words) => console.log(...words);

// A request that is refused while it uploads has an answer, and then perhaps
// an error of the upload, which says nothing new.
function ask(method, path, token, send, headers = {}, read = (answer) => answer.toArray()) {
  if (token) headers["X-Fencing-Token"] = token;
  return new Promise((resolve, reject) => {
    const req = http.request(base + path, { method, headers, agent });
    req.on("error", reject); // after an answer it changes nothing
    req.on("response", async (answer) => {
      try {
        const parts = await read(answer);
        const text = parts ? Buffer.concat(parts).toString("latin1") : "";
        resolve({ status: answer.statusCode, headers: answer.headers, text, at: req.reusedSocket ? "kept" : "fresh" });
      } catch (err) {
        reject(err);
      }
    });
    send ? send(req) : req.end();
  });
}

const whole = (content) => (req) => req.end(content);
const chunks = (content) => async (req) => {
  for (let i = 0; i < content.length; i += 1 << 16) {
    if (!req.write(content.subarray(i, i + (1 << 16)))) await new Promise((next) => req.once("drain", next));
  }
  req.end();
};
const problem = (a) => JSON.parse(a.text).type.split(":").at(-1);
const length = { "Content-Length": body.length };

let a = await ask("PUT", "/things/a", "5", whole(body), { ...length });
say("upload", a.status, a.text);

a = await ask("PUT", "/things/a", "5", chunks(body));
say("chunked", a.status, a.text);

a = await ask("HEAD", "/things/head");
say("head", a.status, a.headers["content-length"], a.text.length);

await ask("GET", "/things/parts", null, null, {}, async (answer) => {
  say("parts", answer.statusCode);
  for await (const part of answer) say("part", part.toString());
});

a = await ask("GET", "/things/large");
say("download", a.status, a.text.length);

a = await ask("DELETE", "/things/a", "4");
say("refused", a.status, problem(a), a.at);
a = await ask("PUT", "/things/a", "5", whole("x"));
say("again", a.status, a.text, a.at);

for (let i = 0; i < 3; i++) {
  a = await ask("PUT", "/things/a", "4", i ? chunks(body) : whole(body), i ? {} : { ...length });
  say("stale", a.status, problem(a));
  a = await ask("PUT", "/things/a", "5", whole("x"));
  say("again", a.status, a.text);
}

a = await ask("PUT", "/things/full", "5", whole(body), { ...length });
say("full", a.status, a.text);
a = await ask("PUT", "/things/a", "5", whole("x"));
say("again", a.status, a.text);
process.exit(0);
