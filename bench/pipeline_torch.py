#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rival of pipeline.cpp: the same blocks as stages of torch.distributed.pipelining over Gloo, two ranks with one thread each.

Says "ready", and then answers each line of its input, until that ends:
    step SCHEDULE M N       "step SECONDS" of the fastest of N steps of M microbatches, "step none WHY" if it fails
    table SCHEDULE M FILE   "table FILE", with the order of actions in it, for what pipeline.cpp is to run
SCHEDULE: gpipe, 1f1b, interleaved, zero-bubble (ScheduleInterleavedZeroBubble) or zb-v.

PyTorch 2.6 keeps one request only of each batch that it sends and receives (pipelining/schedules.py, _batch_p2p). Gloo forgets a message whose
request is gone unless the receiver has come before: then both ranks hang. It runs as it is until an answer takes longer than --limit
seconds; then both ranks are ended and started anew with a _batch_p2p that keeps the requests, for this and all later orders.
"""

import argparse
import os
import select
import subprocess
import sys
import tempfile
import time

RANKS = 2


class Worker:
    """One rank. Takes the orders of the supervisor by its own input, on every rank the same ones."""

    def __init__(self, options):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.options = torch, dist, options
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.models = {}
        self.kept = []
        if options.keep_requests:
            self.keep_requests()
        dist.init_process_group("gloo", init_method="file://" + options.meeting, rank=options.rank, world_size=RANKS)

    def keep_requests(self):
        """Receives are waited for, sends complete by the end of the step. Gloo's must be waited for once each: a second wait hangs."""
        from torch.distributed.pipelining import schedules

        class Requests:
            def __init__(self, works):
                self.works = works

            def wait(self):
                while self.works:
                    self.works.pop(0).wait()

        def batch_p2p(operations, desc=None):
            if not operations:
                return None
            works = list(zip(operations, self.dist.batch_isend_irecv(operations)))
            receives = Requests([work for operation, work in works if operation.op == self.dist.irecv])
            sends = Requests([work for operation, work in works if operation.op != self.dist.irecv])
            self.kept += [receives, sends]
            return receives if receives.works else sends

        schedules._batch_p2p = batch_p2p

    def blocks(self, count):
        from torch_block import Block

        return self.torch.nn.Sequential(*(Block(self.options.width, self.options.heads) for _ in range(count)))

    def schedule(self, name, microbatches):
        """The schedule, the modules of this rank's stages, and whether it has the first and the last of all."""
        import torch.distributed.pipelining as pipelining
        from torch.distributed.pipelining.schedules import ScheduleZBVZeroBubble, _PipelineScheduleRuntime

        options, rank = self.options, self.options.rank
        makers = {
            "gpipe": (pipelining.ScheduleGPipe, [rank]),
            "1f1b": (pipelining.Schedule1F1B, [rank]),
            "interleaved": (pipelining.ScheduleInterleaved1F1B, [rank, rank + RANKS]),
            "zero-bubble": (pipelining.ScheduleInterleavedZeroBubble, [rank, rank + RANKS]),
            "zb-v": (ScheduleZBVZeroBubble, [rank, 2 * RANKS - 1 - rank]),
        }
        make, places = makers[name]
        count = len(places)
        if count not in self.models:
            self.models[count] = [self.blocks(options.layers // (RANKS * count)) for _ in places]
        modules = self.models[count]
        example = self.torch.zeros(options.batch, options.context, options.width)
        stages = [
            pipelining.PipelineStage(module, place, RANKS * count, self.torch.device("cpu"), input_args=example, output_args=example)
            for module, place in zip(modules, places)
        ]
        common = {"loss_fn": lambda output, slope: (output * slope).sum()}
        if name == "zb-v":
            common["stage_index_to_group_rank"] = {0: 0, 1: 1, 2: 1, 3: 0}
        schedule = make(stages[0] if count == 1 else stages, microbatches, **common)
        if name == "zb-v":  # the plain schedule would send from a stage to its neighbour on the same rank
            order = schedule.pipeline_order
            schedule = _PipelineScheduleRuntime(stages, microbatches, **common)
            schedule._load_actions(order)
        return schedule, modules, 0 in places, RANKS * count - 1 in places

    def step(self, name, microbatches, steps):
        torch, dist, options = self.torch, self.dist, self.options
        schedule, modules, first, last = self.schedule(name, microbatches)
        whole = (microbatches * options.batch, options.context, options.width)
        inputs = [torch.randn(whole)] if first else []
        slope = {"target": 0.01 * torch.randn(whole), "losses": []} if last else {}
        best = float("inf")
        for turn in range(steps + 1):  # the first one warms up
            for module in modules:
                module.zero_grad(set_to_none=False)
            dist.barrier()
            start = time.monotonic()
            schedule.step(*inputs, **slope)
            for requests in self.kept:
                requests.wait()
            self.kept.clear()
            times = torch.tensor([-start, time.monotonic()], dtype=torch.float64)
            dist.all_reduce(times, dist.ReduceOp.MAX)
            if turn > 0:
                best = min(best, times.sum().item())
        return f"step {best}"

    def table(self, name, microbatches, file):
        schedule = self.schedule(name, microbatches)[0]
        if self.options.rank == 0:
            schedule._dump_csv(file)
        return f"table {file}"

    def serve(self):
        print("ready", flush=True)
        for line in sys.stdin:
            what, name, microbatches, last = line.split()
            if what == "step":
                answer = self.step(name, int(microbatches), int(last))
            else:
                answer = self.table(name, int(microbatches), last)
            print(answer, flush=True)
        self.dist.destroy_process_group()


class Pair:
    """Both ranks."""

    def __init__(self, options, keep_requests):
        self.limit = options.limit
        self.folder = tempfile.TemporaryDirectory()
        arguments = [sys.executable, *sys.argv, "--meeting", os.path.join(self.folder.name, "meeting"), "--rank"]
        if keep_requests:
            arguments.insert(-1, "--keep-requests")
        self.errors = tempfile.TemporaryFile("w+")
        self.ranks = [
            subprocess.Popen([*arguments, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1)
            for rank in range(RANKS)
        ]

    def order(self, line):
        """The answer of the first rank when all have one; None and the reason if a rank has ended. Throws TimeoutError."""
        try:
            for rank in self.ranks:
                rank.stdin.write(line)
        except BrokenPipeError:
            return None, self.complaint()
        return self.hear(self.limit)

    def hear(self, limit):
        end = time.monotonic() + limit
        answers = []
        for rank in self.ranks:
            if not select.select([rank.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer in {limit:g} s")
            answers.append(rank.stdout.readline().strip())
            if not answers[-1]:
                return None, self.complaint()
        return answers[0], ""

    def complaint(self):
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if "Error" in line]
        return lines[0] if lines else "a rank has ended"

    def end(self, kill):
        for rank in self.ranks:
            if kill:
                rank.kill()
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()
            rank.stdout.close()
        self.errors.close()
        self.folder.cleanup()


def supervise(options):
    keeps = options.keep_requests

    def begin():
        pair = Pair(options, keeps)
        answer, why = pair.hear(300)
        if answer != "ready":
            sys.exit(f"pipeline_torch.py: PyTorch does not start: {why}")
        return pair

    pair = begin()
    print("ready", flush=True)
    for line in sys.stdin:
        why = None
        try:
            answer, why = pair.order(line)
        except TimeoutError as late:
            answer, why = None, late
            if not keeps:
                print(f"PyTorch: {line.strip()}: {late}; from here on it keeps the requests that it drops", file=sys.stderr, flush=True)
                keeps = True
                pair.end(kill=True)
                pair = begin()
                try:
                    answer, why = pair.order(line)
                except TimeoutError as again:
                    why = again
        if answer is None:
            pair.end(kill=True)
            pair = begin()
            answer = f"{line.split()[0]} none {why}"
        print(answer, flush=True)
    pair.end(kill=False)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 8), ("heads", 4), ("width", 256), ("context", 128), ("batch", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--limit", type=float, default=60, help="seconds for an answer")
    parser.add_argument("--keep-requests", action="store_true", help="from the start")
    parser.add_argument("--meeting", help="file through which the ranks find each other")
    parser.add_argument("--rank", type=int)
    options = parser.parse_args()
    os.environ.update(USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo")
    if options.rank is None:
        supervise(options)
    else:
        Worker(options).serve()


main()
