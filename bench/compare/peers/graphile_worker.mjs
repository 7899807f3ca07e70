// graphile-worker on PostgreSQL.
//
// Settings: https://worker.graphile.org/docs/performance: 24 jobs at a time, a pool of one more
// connection, a local queue of 500, completion batched without delay; two processes. The refetch
// delay is that of the project's own performance test (perfTest/graphile.config.js).

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { TEXT, drive } from "../drive.mjs";
import { count, hang, openMeter, ping, url } from "../meter.mjs";

const CONCURRENT = 24;
const preset = {
  worker: {
    connectionString: url,
    concurrentJobs: CONCURRENT,
    maxPoolSize: CONCURRENT + 1,
    localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger: new Logger(() => () => {}),
  },
};

const producer = {
  bulk: 10_000,
  async open() {
    this.utils = await makeWorkerUtils({ preset });
  },
  async setup() {
    await runMigrations({ preset });
  },
  async one(task, text) {
    await this.utils.addJob(task, { text });
  },
  async many(jobs) {
    const job = { identifier: "noop", payload: { text: TEXT } };
    await this.utils.addJobs(Array.from({ length: jobs }, () => job));
  },
  async close() {
    await this.utils.release();
  },
};

async function work() {
  openMeter();
  const taskList = {
    noop: async () => count(),
    ping: async ({ text }) => ping(text),
    hang: async () => hang(),
  };
  const runner = await run({ preset, taskList });
  await runner.promise;
}

await drive(producer, work);
