// Another Redlock client, as a process beside Holdfast's contenders. Modules come from the folder $INTEROP_MODULES.
//
//   node peer.mjs node-redlock|redis-semaphore talk SOCKET...     commands from stdin, see peer.py
//   node peer.mjs node-redlock|redis-semaphore contend SOCKET...  until stdin ends; settings in $INTEROP, as JSON
//
// It believes that it holds a lock while the library says so and the time that the library's documents name has not
// passed: what a careful user of it does.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import readline from 'node:readline';

const require = createRequire(`${process.env.INTEROP_MODULES}/`);
const [library, mode, ...sockets] = process.argv.slice(2);
const { Redis } = require('ioredis');

// A node that is away is an error at once, not a queue.
const clients = sockets.map(path => {
  const client = new Redis({ path, maxRetriesPerRequest: 0, enableOfflineQueue: false, retryStrategy: () => 50, commandTimeout: 500 });
  client.on('error', () => {});
  return client;
});
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

// --- libraries: take(name, ttl, wait) gives null, or {held, extend, release} -----------------------------------------

function nodeRedlock() {
  const { default: Redlock } = require('redlock');
  const redlock = new Redlock(clients, { retryDelay: 40, retryJitter: 30 });
  return async (name, ttlMs, waitMs) => {
    let lock;
    try {
      lock = await redlock.acquire([name], ttlMs, { retryCount: Math.floor(waitMs / 40) });
    } catch (error) {
      return { refused: error.constructor.name };
    }
    return {
      held: () => Date.now() < lock.expiration,
      extend: async () => { lock = await lock.extend(ttlMs); },
      release: () => lock.release(),
    };
  };
}

function redisSemaphore() {
  const { RedlockMutex } = require('redis-semaphore');
  // When the keys were last set or extended: the library keeps no time.
  class Timed extends RedlockMutex {
    async timed(work) {
      const start = Date.now();
      const good = await work;
      if (good)
        this.from = start;
      return good;
    }
    _acquire(signal) { return this.timed(super._acquire(signal)); }
    _refresh() { return this.timed(super._refresh()); }
  }
  return async (name, ttlMs, waitMs) => {
    const mutex = new Timed(clients, name, {
      lockTimeout: ttlMs, acquireAttemptsLimit: 1, retryInterval: 1, refreshInterval: Math.round(ttlMs / 3), onLockLost: () => {},
    });
    for (const until = Date.now() + waitMs; !await mutex.tryAcquire();) {
      if (Date.now() >= until)
        return { refused: 'TimeoutError' };
      await sleep(10);
    }
    return {
      held: () => mutex.isAcquired && Date.now() < mutex.from + ttlMs * 0.99 - 2,
      extend: async () => { if (!await mutex._refresh()) throw new Error('not refreshed'); },
      release: () => mutex.release(),
    };
  };
}

const take = library === 'node-redlock' ? nodeRedlock() : redisSemaphore();

// --- contending: history and witness as in tests/support/witness.h -----------------------------------------------------

async function contend() {
  const options = JSON.parse(process.env.INTEROP);
  const now = () => process.hrtime.bigint() + BigInt(options.boot_minus_monotonic_ns);
  const history = fs.openSync(options.history, 'w'), witness = fs.openSync(options.witness, 'r+');
  const counts = { grants: 0, refused: 0, extends: 0, not_extended: 0, lost: 0, sightings: 0 };
  const word = Buffer.alloc(8);
  let records = 0, last = BigInt(process.pid) << 40n, stopping = false;

  function write(kind, end, ask, first, latest, firstWord, seen) {
    const record = Buffer.alloc(128);
    [kind, 0, process.pid, options.host, 0, end].forEach((value, i) => record.writeUInt32LE(value, 4 * i));
    [0n, ask, first, latest, now(), firstWord, seen].forEach((value, i) => record.writeBigUInt64LE(value, 24 + 8 * i));
    fs.writeSync(history, record, 0, 128, 128 * records++);
  }

  async function hold(lock, ask) {
    const first = now(), long = Math.random() < options.long_share;
    const until = first + BigInt(Math.round(1e6 * (long ? options.long_ms : options.hold_ms)));
    let latest = 0n, firstWord = 0n, extended = first;
    for (;;) {
      const at = now();
      fs.readSync(witness, word, 0, 8, 0);
      const found = word.readBigUInt64LE();
      if (!lock.held())
        break;
      if (latest && found !== last) {
        write(2, 0, ask, at, at, firstWord, found);
        counts.sightings++;
      }
      latest = at;
      word.writeBigUInt64LE(++last);
      fs.writeSync(witness, word, 0, 8, 0);
      firstWord ||= last;
      if (at >= until || stopping)
        break;
      if (at - extended > BigInt(options.extend_ms) * 1000000n) {
        extended = at;
        await lock.extend().then(() => counts.extends++, () => counts.not_extended++);
      } else
        await sleep(1);
    }
    if (latest)
      write(1, lock.held() ? 1 : 2, ask, first, latest, firstWord, last);
    if (!lock.held())
      counts.lost++;
    await Promise.resolve(lock.release()).catch(() => {});
  }

  process.stdin.resume().on('end', () => { stopping = true; });
  console.log('ready');
  while (!stopping) {
    const ask = now(), lock = await take(options.name, options.ttl_ms, options.wait_ms);
    if (lock.refused)
      counts.refused++;
    else {
      counts.grants++;
      await hold(lock, ask);
    }
    await sleep(Math.random() * options.pause_ms);
  }
  console.log(JSON.stringify(counts));
}

// --- talking ---------------------------------------------------------------------------------------------------------

async function talk() {
  let lock;
  const commands = {
    take: async (name, ttlMs, waitMs) => {
      const got = await take(name, +ttlMs, +waitMs);
      if (got.refused)
        return `refused=${got.refused}`;
      lock = got;
      return 'taken=1';
    },
    extend: () => lock.extend().then(() => 'extended=1', error => `refused=${error.constructor.name}`),
    held: () => `held=${+lock.held()}`,
    release: () => Promise.resolve(lock.release()).then(() => 'released=1', error => `refused=${error.constructor.name}`),
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...args] = line.split(' ');
    console.log(`ok ${await commands[command](...args)}`);
  }
}

await Promise.all(clients.map(client => new Promise(resolve => client.once('ready', resolve))));
await (mode === 'talk' ? talk() : contend());
process.exit(0);
