#!/usr/bin/env node
// Writes each line of standard input to a URL through fenceproxy, under a lease:
//   lease.mjs KEY URL
// See README.md beside this file.
import {readFileSync} from 'node:fs'
import {hostname} from 'node:os'
import {basename} from 'node:path'
import {createInterface} from 'node:readline'

if (process.argv.length !== 4) {
  console.error(`usage: ${basename(process.argv[1])} KEY URL, and on standard input the lines to write`)
  process.exit(2)
}
const [key, url] = process.argv.slice(2)
const server = process.env.FENCEPROXY_SERVER ?? 'http://127.0.0.1:9902'
const tokenFile = process.env.FENCEPROXY_LEASES_TOKEN_FILE ?? process.env.FENCEPROXY_TOKEN_FILE
const ttl = 1000 * (process.env.TTL ?? 30)
const wait = 1000 * (process.env.WAIT ?? 60)

// Node has no clock that goes on in suspend and cannot be set: the one that has
// gone further counts, so that the lease ends too early rather than too late.
const began = {steady: performance.now(), wall: Date.now()}
const now = () => Math.max(performance.now() - began.steady, Date.now() - began.wall)

class Ended extends Error {
  constructor(code, message) {
    super(message)
    this.code = code
  }
}

// Lease is the lease of a key, renewed until release.
class Lease {
  #url = `${server}/v1/leases/${encodeURIComponent(key).replaceAll('.', '%2E')}`
  #until = 0
  #timer

  async #ask(method, body, timeout) {
    const headers = {'Content-Type': 'application/json'}
    if (tokenFile) headers.Authorization = `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`
    const answer = await fetch(this.#url, {method, headers, body: JSON.stringify(body), redirect: 'manual', signal: AbortSignal.timeout(timeout)})
    return {status: answer.status, text: await answer.text()}
  }

  async acquire() {
    const {status, text} = await this.#ask('POST', {holder: `${hostname()}/${process.pid}`, ttl: `${ttl}ms`, wait: `${wait}ms`}, wait + 300_000)
    if (status === 409) throw new Ended(75, `held by another: ${text}`)
    if (status !== 201) throw new Ended(1, `no lease: ${status} ${text}`)
    const lease = JSON.parse(text)
    this.id = lease.id
    this.token = lease.token // a string: 64-bit numbers do not survive JSON.parse
    await this.#renew() // the question may have waited for long
    this.#keep()
  }

  #keep() {
    this.#timer = setTimeout(async () => {
      try {
        if (!(await this.#renew())) return
      } catch (e) {
        console.error(`renewing the lease: ${e.message}`) // again, until its end
      }
      if (this.#timer) this.#keep()
    }, ttl / 3)
  }

  async #renew() {
    const sent = now() // the server counts from later
    const {status} = await this.#ask('PUT', {id: this.id}, ttl)
    if (status === 200) this.#until = sent + ttl
    if (status === 409) this.#until = 0
    return status !== 409
  }

  check() {
    if (now() >= this.#until) throw new Ended(76, `the lease of ${key} is lost: stop`)
  }

  async release() {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.id) await this.#ask('DELETE', {id: this.id}, 5000).catch((e) => console.error(`the lease runs out by itself: ${e.message}`))
  }
}

const lease = new Lease()
try {
  await lease.acquire()
  for await (const line of createInterface({input: process.stdin})) {
    lease.check()
    const answer = await fetch(url, {method: 'PUT', headers: {'X-Fencing-Token': lease.token}, body: line, redirect: 'manual'})
    console.log(answer.status)
    const text = await answer.text()
    if (answer.status === 409) throw new Ended(76, `stale, stop: ${text}`)
    if (!answer.ok) throw new Ended(1, `not written, or nobody knows: ${answer.status}`)
  }
} catch (e) {
  console.error(e.message)
  process.exitCode = e.code > 0 ? e.code : 1
} finally {
  await lease.release()
}
process.exit() // standard input may still be open
