// A lock of Holdfast for Node.js (16 or later), over `holdfast hold --json`. Copy it; report.js shows its use.
'use strict';
const { spawn } = require('node:child_process');
const { createInterface } = require('node:readline');

// Waits for the lock NAME; `options` are those of `holdfast hold`, such as '--wait', '10s'. Resolves to {fence, signal, release}:
//   fence      a BigInt, for whatever can compare it
//   signal     an AbortSignal: the work has to stop, because the lock is being lost, or nobody watches it any more
//   release()  gives it back, and rejects where it had been lost before
// Rejects with what `holdfast hold` said, and its exit code as `code`: 75 when another has the lock.
function hold(name, ...options) {
    const child = spawn('holdfast', ['hold', '--json', ...options, name]);
    const stop = new AbortController();
    let said = '', reason = '', releasing = false;
    const ended = new Promise((resolve) => child.on('close', resolve)); // after the last line
    const failed = (code) => Object.assign(new Error(reason || said.trim() || 'holdfast hold has ended'), { code });
    const release = async () => {
        releasing = true;
        child.stdin.end(); // which releases it
        const code = await ended;
        if (code !== 0) throw failed(code);
    };

    child.stdin.on('error', () => {}); // it has died: `ended` tells
    child.stderr.on('data', (text) => { said += text; });
    return new Promise((resolve, reject) => {
        child.on('error', reject); // it could not be started
        ended.then((code) => reject(failed(code))); // nothing any more once it was granted
        createInterface({ input: child.stdout }).on('line', (line) => {
            const event = JSON.parse(line);
            if (event.event === 'granted') resolve({ fence: BigInt(event.fence), signal: stop.signal, release });
            if (event.event === 'losing' || event.event === 'lost') {
                reason = event.reason;
                stop.abort(failed(124));
            }
        }).on('close', () => { // the end of its output is a loss, whatever it came from
            if (!releasing) stop.abort(failed(124));
        });
    });
}

module.exports = { hold };
