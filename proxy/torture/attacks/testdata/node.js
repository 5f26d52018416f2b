// A legacy API on Node that keeps a record of each request that it saw, of what
// its parser took for none, too. Arguments: the file of the record, and
// "strict" or "lenient" for the parser. It says its port in one line and ends
// when its standard input does.
'use strict';
const http = require('http');
const fs = require('fs');
const record = fs.openSync(process.argv[2], 'a');
const seen = (r) => fs.writeSync(record, JSON.stringify(r) + '\n');

// All of a header's lines, as Node joins only some.
const all = (req, name) => req.rawHeaders.filter((_, i) => i % 2 && req.rawHeaders[i - 1].toLowerCase() === name).join(' & ');

// The framing of a request, in any spelling that some server takes for it.
function framing(req) {
  const names = req.rawHeaders.filter((_, i) => i % 2 === 0);
  return names.filter((name) => /^(content-length|transfer-encoding)$/.test(name.toLowerCase().replace(/[^a-z0-9]/g, '-')));
}

function told(req) {
  if (framing(req).length > 1) seen({ method: '', target: '', token: '', line: framing(req).join(' and '), status: 400 });
  seen({ method: req.method, target: req.url, token: all(req, 'x-fencing-token'), line: `HTTP/${req.httpVersion}`, status: 200 });
}

function answer(req, res) {
  told(req);
  req.on('error', () => {}).on('end', () => res.end('done\n')).resume();
}

const server = http.createServer({ insecureHTTPParser: process.argv[3] === 'lenient', keepAliveTimeout: 60000 }, answer);
server.on('checkContinue', (req, res) => { res.writeContinue(); answer(req, res); });
server.on('checkExpectation', answer);
server.on('upgrade', (req, socket) => { told(req); socket.end('HTTP/1.1 501 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'); });
server.on('connect', (req, socket) => { told(req); socket.end('HTTP/1.1 501 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'); });
server.on('clientError', (err, socket) => {
  // A connection that breaks in the middle of a body is no request.
  if (err.code !== 'ECONNRESET' && err.code !== 'HPE_INVALID_EOF_STATE') seen({ method: '', target: '', token: '', line: err.code, status: 400 });
  socket.destroy();
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
