#!/usr/bin/env node
// The nightly report in Node.js: report.js FILE [STEPS].
'use strict';
const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const { setTimeout } = require('node:timers/promises');
const { hold } = require('./holdfast.js');

async function report(file, steps) {
    const lock = await hold('nightly/report');
    try {
        const last = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n').pop().split(' ')[0] : 0;
        if (BigInt(last) > lock.fence) throw new Error('refused: a later holder has written');
        appendFileSync(file, `${lock.fence} begin\n`);
        for (let step = 0; step < steps; step++) await setTimeout(10, null, { signal: lock.signal }); // the work
        appendFileSync(file, `${lock.fence} end\n`);
    } finally {
        await lock.release();
    }
}

const [file, steps = '10', ...more] = process.argv.slice(2);
if (!file || more.length || !/^\d+$/.test(steps)) {
    console.error('usage: report.js FILE [STEPS]');
    process.exit(64);
}
report(file, Number(steps)).catch((failure) => {
    console.error(`report.js: ${failure.cause?.message ?? failure.message}`);
    process.exitCode = 1;
});
