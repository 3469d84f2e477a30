// Locks and unlocks by another Redlock library, as fast as it goes: prints a line of JSON. Modules come from $MODULES.
//
//   node node.mjs node-redlock|redis-semaphore one CYCLES SOCKET...                 one after the other
//   node node.mjs node-redlock|redis-semaphore many MILLISECONDS CLIENTS SOCKET...  CLIENTS at a time
//
// Nothing is contended; no command is retried.
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.MODULES}/`);
const [library, mode, ...rest] = process.argv.slice(2);
const numbers = rest.splice(0, mode === 'one' ? 1 : 2).map(Number);
const { Redis } = require('ioredis');
const nodes = rest.map(at => new Redis({ ...(at[0] === "/" ? { path: at } : { port: Number(at) }), maxRetriesPerRequest: 0 }));
const now = () => Number(process.hrtime.bigint()) / 1e3;

function nodeRedlock() {
  const { default: Redlock } = require('redlock');
  const redlock = new Redlock(nodes, { retryCount: 0 });
  return async name => (await redlock.acquire([name], 30000)).release();
}

function redisSemaphore() {
  const { RedlockMutex } = require('redis-semaphore');
  return async name => {
    const mutex = new RedlockMutex(nodes, name, { lockTimeout: 30000, acquireAttemptsLimit: 1, refreshInterval: 0 });
    await mutex.acquire();
    await mutex.release();
  };
}

const cycle = library === 'node-redlock' ? nodeRedlock() : redisSemaphore();

async function one(cycles) {
  const samples = [];
  for (let k = -100; k < cycles; k++) {
    const start = now();
    await cycle(`peer/${k & 255}`);
    if (k >= 0)
      samples.push(now() - start);
  }
  samples.sort((a, b) => a - b);
  const at = p => +samples[Math.floor((samples.length - 1) * p)].toFixed(1);
  return { p50_us: at(0.5), p99_us: at(0.99) };
}

async function many(milliseconds, clients) {
  const start = now(), until = start + milliseconds * 1e3;
  let count = 0;
  await Promise.all(Array.from({ length: clients }, async (_, client) => {
    for (let k = 0; now() < until; k++, count++)
      await cycle(`peer/${client}/${k & 63}`);
  }));
  return { clients, cycles_per_s: Math.round(count / (now() - start) * 1e6) };
}

const figures = await (mode === 'one' ? one : many)(...numbers);
console.log(JSON.stringify({ bench: 'peer', peer: library, nodes: nodes.length, ...figures }));
process.exit(0);
