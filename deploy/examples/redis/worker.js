#!/usr/bin/env node
// Writes FILE to URL under a lock in Redis. Needs node 18 and the package redis.
//
//   ./worker.js redis://127.0.0.1:6379 LOCK URL FILE
//
// The token is a counter that the very script counts up that takes the lock.
//
// Traps:
//   - The usual recipe, SET NX PX with a random value, has no token: a random
//     value has no order.
//   - An INCR before or after the SET, as a call of its own, gives a
//     token to one worker and the lock to another.
//   - The counter must outlive everything: no TTL, no eviction
//     (maxmemory-policy noeviction), appendfsync always. A failover can lose its last
//     steps, and then hands a number out twice: set holder_header, as here,
//     and the second holder gets 409 token-collision. After a loss raise the rule's epoch.
//   - Redlock (several Redis servers) has no counter that all of them agree on.
//   - Lua and JavaScript know numbers up to 2^53: the token stays a string.
'use strict'
const { createClient } = require('redis')
const { randomUUID } = require('crypto')
const { readFile } = require('fs/promises')

const TTL = 30_000 // ms

// KEYS: the lock, its counter. ARGV: the holder, the TTL. Returns the token, or
// nil while another holds the lock.
const TAKE = `
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[2])`

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
const GIVE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

async function write (url, token, holder, body) {
  for (let attempt = 1; attempt <= 5; attempt++) {
    const answer = await fetch(url, { method: 'PUT', body, headers: { 'X-Fencing-Token': token, 'X-Fencing-Holder': holder } })
    const text = await answer.text()
    if (answer.ok) return 0
    const forwarded = answer.headers.get('Fencing-Forwarded') // the proxy's; the API may answer 409, too
    if (answer.headers.get('Fencing-Result') === 'rejected;reason=stale-token') {
      console.error('lost the lease:', text) // stop; take the lock again before the next write
      return 4
    }
    if (forwarded === 'unknown') {
      console.error('it may have happened, look before you repeat it:', text)
      return 5
    }
    if (answer.status !== 503 || forwarded !== 'no') {
      console.error('refused:', answer.status, text)
      return 1
    }
    await sleep(1000 * Number(answer.headers.get('Retry-After') || attempt)) // not forwarded: the same token may come again
  }
  console.error('not forwarded, for too long')
  return 5
}

async function main ([server, name, url, file]) {
  const client = createClient({ url: server })
  await client.connect()
  const holder = randomUUID()
  const keys = [`{lock:${name}}`, `{lock:${name}}:token`] // one slot of a cluster
  const script = (text, ...args) => client.eval(text, { keys, arguments: [holder, ...args] })
  let token
  while ((token = await script(TAKE, String(TTL))) === null) await sleep(200)
  const renewal = setInterval(() => script(RENEW, String(TTL)).catch(() => {}), TTL / 3)
  try {
    console.error('token', token)
    const body = await readFile(file) // the work
    return await write(url, token, holder, body)
  } finally {
    clearInterval(renewal)
    await script(GIVE).catch(() => {})
    await client.disconnect()
  }
}

if (process.argv.length !== 6) {
  console.error('usage: worker.js SERVER LOCK URL FILE')
  process.exit(2)
}
main(process.argv.slice(2)).then(code => { process.exitCode = code }, err => { console.error(err); process.exitCode = 1 })
