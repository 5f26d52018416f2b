// Answers with what applications on Node make of a request: on plain http, and
// on Express. Its argument: the mark that parts the fields of an answer. It
// says both ports in one line and ends when its standard input does.
'use strict';
const http = require('http');
const path = require('path');
const querystring = require('querystring');
const mark = process.argv[2];

const attempt = (f) => { try { return f(); } catch { return undefined; } };

function answer(req, res, fields) {
  fields.token = req.headers['x-fencing-token'] || '';
  fields.box = req.headers['x-box'] || '';
  // http:// takes the port 80 away, and keeps every other one.
  fields.host = attempt(() => new URL('http://' + req.headers.host).host.replace(/\.$/, '')) || '';
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  const body = Buffer.from(known.map(([name, value]) => name + '=' + value).join(mark));
  res.writeHead(200, { 'Content-Length': body.length });
  res.end(body);
}

// careless decodes and folds whatever it can, as a chain of careless hops would.
function careless(target) {
  let p = target.split(/[?#]/)[0].replace(/^https?:\/\/[^/]*/i, '');
  for (let before; before !== p;) {
    before = p;
    p = attempt(() => decodeURIComponent(p)) ?? p;
  }
  p = p.split('\0')[0].replace(/\\/g, '/').replace(/;[^/]*/g, '');
  // Letter case as Java's equalsIgnoreCase sees it: the long s is an s, and the dotless i an i.
  p = [...p].map((c) => { const u = c.toUpperCase(); return (u.length === c.length ? u : c).toLowerCase(); }).join('');
  return path.posix.normalize('/' + p).replace(/^\/+/, '/').replace(/(.)\/$/, '$1');
}

// body is what the simplest readers find in one, beside Express's own below.
function body(text) {
  return {
    form: new URLSearchParams(text).get('order_id') ?? undefined,
    querystring: scalar(querystring.parse(text).order_id),
    json: scalar(attempt(() => JSON.parse(text).order_id)),
  };
}

const scalar = (value) => ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined;

const plain = http.createServer((req, res) => {
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk)).on('end', () => plainly(req, res, Buffer.concat(chunks).toString()));
});

function plainly(req, res, text) {
  const url = attempt(() => new URL(req.url, 'http://localhost'));
  const once = url && attempt(() => url.pathname.split('/').map(decodeURIComponent));
  const bare = req.url.split('?')[0];
  answer(req, res, {
    path: once && (once.some((s) => s.includes('/')) ? JSON.stringify(once) : once.join('/')),
    twice: url && attempt(() => decodeURIComponent(decodeURIComponent(url.pathname))),
    normal: bare.startsWith('/') ? attempt(() => path.posix.normalize(decodeURIComponent(bare))) : undefined,
    careless: careless(req.url),
    id: url ? url.searchParams.get('id') ?? '' : '',
    query: url?.searchParams.get('order_id') ?? undefined,
    ...(text ? body(text) : {}),
  });
}

const expressed = require('express');
const app = expressed();
const tell = (name) => (req, res) => answer(req, res, {
  path: '/' + name + '/' + Object.values(req.params).map((v) => v ?? '').map(name === 'files' ? String : encodeURIComponent).join('/'),
  id: JSON.stringify(req.query.id ?? ''),
  query: scalar(req.query.order_id),
  body: scalar(req.body?.order_id),
});
app.all('/accounts/:id', tell('accounts'));
app.all('/accounts/:id/(.*)', tell('accounts'));
app.all('/files/(.*)', tell('files'));
app.all('/orders', expressed.urlencoded({ extended: true }), expressed.json(), tell('orders'));
app.all('/sites/:site', tell('sites'));
app.all('/boxes/:id', tell('boxes'));
app.all('/other/:name', tell('other'));
app.use((err, req, res, next) => { res.status(400).end(); });
const express = http.createServer(app);

plain.listen(0, '127.0.0.1', () => express.listen(0, '127.0.0.1', () =>
  console.log(plain.address().port + ' ' + express.address().port)));
process.stdin.on('end', () => process.exit(0)).resume();
