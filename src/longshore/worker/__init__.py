"""The worker: claims batches, runs handlers, settles in batches, under one lease."""
