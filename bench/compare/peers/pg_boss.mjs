// pg-boss on PostgreSQL.
//
// Settings: https://github.com/timgit/pg-boss/blob/master/docs/api/workers.md (LISTEN/NOTIFY for
// idle queues, large batches with burstWhenBatchFull for full ones), .../docs/api/queues.md
// (notify) and .../docs/api/jobs.md (insert() for many jobs at once); two processes. pg-boss does
// not supervise in the producer.

import { PgBoss } from "pg-boss";
import { TEXT, drive } from "../drive.mjs";
import { count, hang, openMeter, ping, url } from "../meter.mjs";

const BATCH = 1_000;
const QUEUES = ["noop", "ping", "hang"];

const producer = {
  bulk: 1_000,
  async open() {
    this.boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
    await this.boss.start();
  },
  async setup() {
    for (const queue of QUEUES) await this.boss.createQueue(queue, { notify: true });
  },
  async one(task, text) {
    await this.boss.send(task, { text });
  },
  async many(jobs) {
    const job = { data: { text: TEXT } };
    await this.boss.insert("noop", Array.from({ length: jobs }, () => job));
  },
  async close() {
    await this.boss.stop({ graceful: false });
  },
};

async function work() {
  openMeter();
  const boss = new PgBoss({ connectionString: url, useListenNotify: true });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  const burst = { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: 2 };
  await boss.work("noop", burst, async (jobs) => count(jobs.length));
  await boss.work("ping", async ([job]) => ping(job.data.text));
  await boss.work("hang", async () => hang());
}

await drive(producer, work);
