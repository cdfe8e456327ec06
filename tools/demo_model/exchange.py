"""Averages over worker processes that share their memory.

On busy cores two processes that meet once a step get further than two threads that meet in every
operation."""

import torch
from torch import multiprocessing

LONGEST_WAIT_S = 900  # for a worker that is gone, or one that writes a report


class Exchange:
    def __init__(self, workers, size):
        context = multiprocessing.get_context("spawn")
        self.workers = workers
        self.shared = torch.zeros(workers, size).share_memory_()
        self.barrier = context.Barrier(workers)

    def average(self, rank, tensors):
        """Replaces the contents of the tensors by their averages over the workers."""
        self.shared[rank] = torch.cat([each.flatten() for each in tensors])
        self.barrier.wait(LONGEST_WAIT_S)
        means = self.shared.mean(0).split([each.numel() for each in tensors])
        self.barrier.wait(LONGEST_WAIT_S)
        for each, mean in zip(tensors, means):
            each.copy_(mean.view_as(each))

    def start_others(self, work, *arguments):
        """Starts work(rank, exchange, *arguments) in every process but this one, which is 0."""
        context = multiprocessing.get_context("spawn")
        for rank in range(1, self.workers):
            context.Process(target=work, args=(rank, self, *arguments), daemon=True).start()
