// Graphile Worker: the adapter (lines of JSON, see wire.py) and, with "worker C", the worker.
// Variant tuned: localQueue and batched completion, as its page on performance advises.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import dgram from "node:dgram";
import fs from "node:fs";
import readline from "node:readline";

const require = createRequire(process.env.BENCH_NODE_HOME + "/package.json");
const { run, makeWorkerUtils, runMigrations, Logger } = await import(pathToFileURL(require.resolve("graphile-worker")));
const pg = (await import(pathToFileURL(require.resolve("pg")))).default;
const connectionString = process.env.BENCH_DSN;
const logger = new Logger(() => () => {});

const now = () => (performance.timeOrigin + performance.now()) / 1000;
const port = +(process.env.BENCH_UDP || 0);
const socket = port ? dgram.createSocket("udp4") : null;
socket?.unref();
const tell = (what, n) => socket?.send(`${what} ${n} ${now()}`, port, "127.0.0.1");
let first = process.env.BENCH_FIRST;
const start = (n) => {
  tell("start", n);
  if (!first) return;
  try { fs.writeFileSync(first, String(now()), { flag: "wx" }); } catch {}
  first = null;
};
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));
const KINDS = {
  noop: async () => {},
  cpu5ms: async () => { const until = performance.now() + 5; while (performance.now() < until); },
  sleep20ms: () => pause(20),
  sleep2s: () => pause(2000),
  kill9: async () => { await pause(20); process.kill(process.pid, "SIGKILL"); await pause(100); },
};

async function work(c) {
  const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const tuned = process.env.BENCH_VARIANT === "tuned" ? batched : {};
  const wrap = (job) => async ({ n }) => { start(n); await job(); tell("end", n); };
  const taskList = Object.fromEntries(Object.entries(KINDS).map(([kind, job]) => [kind, wrap(job)]));
  const worker = { connectionString, concurrentJobs: c, maxPoolSize: Math.max(10, c + 2), ...tuned };
  await (await run({ taskList, logger, preset: { worker } })).promise;
}

async function serve() {
  let utils, client;
  const peer = {
    install: async () => {
      await runMigrations({ connectionString, logger });
      utils = await makeWorkerUtils({ connectionString, logger });
      client = new pg.Client({ connectionString });
      await client.connect();
    },
    version: async () => JSON.parse(fs.readFileSync(`${process.env.BENCH_NODE_HOME}/node_modules/graphile-worker/package.json`)).version,
    enqueue: async ({ kind, n }) => {
      const began = performance.now();
      for (let i = 0; i < n; i += 1000)
        await utils.addJobs(Array.from({ length: Math.min(1000, n - i) }, (_, j) => ({ identifier: kind, payload: { n: i + j } })));
      return (performance.now() - began) / 1000;
    },
    put: async ({ kind, n }) => { await utils.addJob(kind, { n }); return now(); },
    worker: async ({ c }) => [[process.execPath, process.argv[1], "worker", String(c)]],
    remaining: async () => +(await client.query("select count(*) from graphile_worker._private_jobs")).rows[0].count,
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    let answer;
    try { answer = { answer: (await peer[order.do](order)) ?? null }; } catch (problem) { answer = { error: String(problem) }; }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

if (process.argv[2] === "worker") await work(+process.argv[3]); else await serve();
