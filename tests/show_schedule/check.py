#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs show_schedule and looks at what it says, writes and refuses.

check.py PROGRAM CLASS [TRAIN_GPT MPIEXEC FLAG]
"""

import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

NAMES = ["gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v", "automatic"]
KEYS = ["span", "makespan", "bubble_rate", "peak_until_input", "peak_until_weight", "receive_depth", "send_depth"]
PROGRAM, CLASS, *TRAINING = sys.argv[1:]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run_program(self, *arguments, stdout=subprocess.PIPE):
        return subprocess.run([PROGRAM, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, timeout=240, check=False)

    def show(self, *arguments):
        """What the program prints, if it likes its arguments; notes are in self.notes."""
        result = self.run_program(*arguments)
        self.notes = result.stderr.decode()
        self.assertEqual(result.returncode, 0, f"{arguments}: {self.notes}")
        return result.stdout.decode()

    def figures(self, *arguments):
        text = self.show("--json", *arguments)
        self.assertEqual(len(text.splitlines()), 1)
        figures = json.loads(text, parse_constant=self.fail)  # no NaN or Infinity
        self.assertEqual(list(figures), KEYS)
        return figures

    def refused(self, *arguments, says, status=2):
        result = self.run_program(*arguments)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, status, f"{arguments}: {message}")
        self.assertRegex(message, r"\Ashow_schedule: [^\n]+\n\Z")
        self.assertIn(says, message)
        self.assertEqual(result.stdout, b"", arguments)

    def picture(self, name):
        """The root of a well-formed SVG without a number that is none."""
        text = self.read(name)
        self.assertIsNone(re.search(r"[^a-z](nan|inf)[^a-z]", text))
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        return root

    def boxes(self, root):
        """How many are drawn: each is a stroke of a path in one of the colours, which are named by a letter and the chunk."""
        paths = root.iter("{http://www.w3.org/2000/svg}path")
        return sum(p.get("d").lower().count("h") for p in paths if re.fullmatch(r"[a-z]\d+", p.get("class", "")) and not p.get("stroke-width"))


class Figures(Case):
    """Step time, bubble and memory where there is a closed form (Qi et al. 2024, arXiv:2401.10241; Narayanan et al. 2021, arXiv:2104.04473)."""

    def expect(self, schedule, p, m, span, makespan=None, until_input=None, until_weight=None, times=(1, 1, 1, 0)):
        figures = self.figures("--schedule", schedule, "--stages", p, "--microbatches", m, "--times", ",".join(map(str, times)))
        work = m * sum(times[:3])
        self.assertAlmostEqual(figures["span"], span, 9, schedule)
        self.assertAlmostEqual(figures["bubble_rate"], 1 - work / span, 9, schedule)
        self.assertGreaterEqual(figures["makespan"], figures["span"] - 1e-9)
        if makespan is not None:
            self.assertAlmostEqual(figures["makespan"], makespan, 9, schedule)
        if until_input is not None:
            self.assertEqual(figures["peak_until_input"], until_input, schedule)
        if until_weight is not None:
            self.assertEqual(figures["peak_until_weight"], until_weight, schedule)
        return figures

    def test_equal_times(self):
        p, m = 4, 8
        alive = [p - rank for rank in range(p)]
        self.expect("gpipe", p, m, 3 * (m + p - 1), 33, [m] * p, [m] * p)
        self.expect("1f1b", p, m, 3 * (m + p - 1), 33, alive, alive)
        interleaved = self.expect("interleaved", p, m, 3 * m + 3 * (p - 1) / 2, 28.5)
        self.assertEqual(interleaved["peak_until_input"][0], p * (1 + (p - 1) / (2 * p)))
        self.expect("bfs", p, m, 3 * m + 3 * (p - 1) / 2, 28.5, [m] * p, [m] * p)
        self.expect("zb-h1", p, m, 3 * m + p - 1, None, alive, [p] * p)
        self.expect("zb-h2", p, m, 3 * m, 3 * m + p - 1, [2 * (p - rank) - 1 for rank in range(p)], [2 * p - 1] * p)
        self.expect("zb-v", p, m, 3 * m, None, None, [p] * p)  # of half a rank each: 2p

    def test_less_memory(self):
        """A half and a third of 1F1B's memory for a half and two thirds of its bubble (arXiv:2405.15362); DualPipeV's published bubble."""
        p, m = 6, 24
        for name, most, bubble in (("v-half", (p + 2) // 2, 1.5 * p), ("v-min", (p + 4) // 3, 2 * p), ("dualpipe-v", p + 0.5, 1.5 * (p - 1))):
            figures = self.figures("--schedule", name, "--stages", p, "--microbatches", m)
            self.assertLessEqual(max(figures["peak_until_weight"]), most, name)
            self.assertLessEqual(figures["makespan"] - 3 * m, bubble + 1e-9, name)

    def test_other_times(self):
        for p, m in ((2, 2), (3, 1), (4, 4), (5, 12), (8, 3)):
            f, b, w = 3.0, 2.5, 1.25
            self.expect("gpipe", p, m, (m + p - 1) * (f + b + w), times=(f, b, w, 0))
            self.expect("1f1b", p, m, (m + p - 1) * (f + b + w), times=(f, b, w, 0))
            bubble = (p - 1) * (f + b - w) if m >= p else (p - 1) * (f + b) - (m - 1) * w
            self.expect("zb-h1", p, m, m * (f + b + w) + bubble, times=(f, b, w, 0))

    def test_published(self):
        """Table 5 of arXiv:2401.10241, four digits."""
        for schedule, rate in (("1f1b", 0.2431), ("zb-h1", 0.1585), ("zb-h2", 0.1083)):
            figures = self.figures("--schedule", schedule, "--stages", 8, "--microbatches", 24, "--times", "18.522,18.086,9.337,0.601")
            self.assertLess(abs(figures["bubble_rate"] - rate), 0.5e-4, schedule)

    def test_automatic(self):
        times = "18.513,18.086,9.331,0.626"
        figures = self.figures("--schedule", "automatic", "--stages", 8, "--microbatches", 32, "--times", times)
        self.assertLess(figures["bubble_rate"], 0.0039 + 0.005)
        self.assertLessEqual(max(figures["peak_until_input"]), 16)
        less = self.figures("--schedule", "automatic", "--stages", 8, "--microbatches", 32, "--times", times, "--memory-limit", 8)
        self.assertLessEqual(max(less["peak_until_input"]), 8)
        self.assertGreater(less["bubble_rate"], figures["bubble_rate"])
        barrier = self.figures("--schedule", "automatic", "--stages", 8, "--microbatches", 32, "--times", times, "--barrier")
        self.assertLessEqual(barrier["makespan"], figures["makespan"] + 1e-9)

    def test_every_schedule(self):
        """One rank or one microbatch, fewer microbatches than ranks, no time at all."""
        for name in NAMES:
            for p, m in ((1, 1), (1, 5), (4, 1), (3, 2), (4, 9)):
                figures = self.figures("--schedule", name, "--stages", p, "--microbatches", m)
                self.assertEqual(len(figures["peak_until_input"]), p)
                self.assertEqual(len(figures["peak_until_weight"]), p)
                self.assertGreaterEqual(figures["span"], 3 * m - 1e-9)
                self.assertAlmostEqual(figures["bubble_rate"], 1 - 3 * m / figures["span"], 9)
                if p == 1:
                    self.assertAlmostEqual(figures["span"], 3 * m, 9)
            self.assertEqual(self.figures("--schedule", name, "--times", "0,0,0,0")["span"], 0)

    def test_message_time(self):
        """Each of the 2 (p - 1) hops of the first microbatch costs 1F1B at least one message."""
        without, slow = (self.figures("--schedule", "1f1b", "--times", "1,1,1," + comm)["span"] for comm in ("0", "0.5"))
        self.assertGreaterEqual(slow, without + 3)

    def test_defaults_and_last_wins(self):
        self.assertEqual(self.figures(), self.figures("--schedule", "1f1b", "--stages", 4, "--microbatches", 8, "--chunks", 1, "--times", "1,1,1,0"))
        self.assertEqual(self.figures("--stages", 3, "--stages", 5), self.figures("--stages=5"))
        self.assertEqual(self.figures("--schedule", "interleaved"), self.figures("--schedule", "interleaved", "--chunks", 2))

    def test_table(self):
        text = self.show("--schedule", "zb-h1", "--stages", 4, "--microbatches", 8)
        self.assertIn("zb-h1: 4 ranks, 8 microbatches", text)
        self.assertRegex(text, r"step +27\n")
        self.assertRegex(text, r"bubble +11\.11 %\n")
        self.assertEqual(len(re.findall(r"^ +[0-3] ", text, re.MULTILINE)), 4)

    def test_memory_limit_is_a_note(self):
        self.show("--schedule", "gpipe", "--memory-limit", 4)
        self.assertRegex(self.notes, r"\Anote: gpipe keeps up to 8 microbatches, more than the limit of 4\n\Z")
        self.show("--schedule", "gpipe", "--memory-limit", 8)
        self.assertEqual(self.notes, "")
        self.show("--schedule", "zb-h1", "--memory-limit", 3.5, "--weight-share", 0)
        self.assertIn("keeps up to 4 ", self.notes)

    def test_help(self):
        text = self.show("--help")
        for flag in ("schedule", "stages", "microbatches", "chunks", "times", "memory-limit", "json", "svg", "csv", "trace"):
            self.assertIn("--" + flag, text)
        for name in NAMES:
            self.assertIn(name, text)


class Files(Case):
    def test_csv(self):
        """Every rank has a row, and every microbatch passes every stage once forward and once backward."""
        for name in NAMES:
            for p, m in ((1, 1), (3, 2), (4, 8)):
                self.show("--schedule", name, "--stages", p, "--microbatches", m, "--csv", self.path("table.csv"))
                rows = [line.split(",") for line in self.read("table.csv").splitlines()]
                self.assertEqual(len(rows), p)
                found = {}
                for rank, row in enumerate(rows):
                    for cell in row:
                        stage, kind, microbatch = re.fullmatch(r"(\d+)([FBIW])(\d+)", cell).groups()
                        found.setdefault((int(stage), int(microbatch)), []).append((rank, kind))
                stages = 1 + max(stage for stage, _ in found)
                self.assertEqual(stages % p, 0)
                self.assertEqual(sorted(found), [(s, i) for s in range(stages) for i in range(m)])
                for actions in found.values():
                    self.assertEqual(len({rank for rank, _ in actions}), 1)
                    self.assertIn("".join(kind for _, kind in actions), ("FB", "FIW"))

    def test_csv_of_1f1b(self):
        self.show("--schedule", "1f1b", "--stages", 2, "--microbatches", 3, "--csv", self.path("table.csv"))
        self.assertEqual(self.read("table.csv"), "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n")

    def test_svg(self):
        for name in NAMES:
            self.show("--schedule", name, "--stages", 4, "--microbatches", 8, "--svg", self.path("picture.svg"), "--csv", self.path("table.csv"))
            root = self.picture("picture.svg")
            words = " ".join(root.itertext())
            self.assertIn(f"{name}: 4 ranks, 8 microbatches", words)
            for rank in range(4):
                self.assertIn(f"rank {rank}", words)
            cells = self.read("table.csv").replace("\n", ",").strip(",").count(",") + 1
            self.assertEqual(self.boxes(root), cells, name)

    def test_svg_at_the_edges(self):
        for arguments in (("--stages", 1, "--microbatches", 1), ("--times", "0,0,0,0"), ("--times", "1,1,1,1e6"), ("--times", "1e-300,0,0,0"),
                          ("--times", "1e100,1e100,1e100,1e100"), ("--schedule", "interleaved", "--chunks", 20)):
            self.show(*arguments, "--svg", self.path("picture.svg"))
            self.assertGreater(self.boxes(self.picture("picture.svg")), 0)

    def test_all_together(self):
        figures = self.figures("--schedule", "zb-v", "--svg", self.path("a.svg"), "--csv", self.path("a.csv"))
        self.assertEqual(figures, self.figures("--schedule", "zb-v"))
        self.picture("a.svg")
        self.assertEqual(len(self.read("a.csv").splitlines()), 4)


def given(flag, value):
    """A value may look like a flag, or be empty."""
    return (f"{flag}={value}",) if value else (flag, value)


class Refusals(Case):
    def test_numbers(self):
        for flag in ("--stages", "--microbatches", "--chunks"):
            for wrong in ("0", "-3", "2.5", "99999999999", "x", "", "4 ", "0x4", "1e2"):
                self.refused(*given(flag, wrong), says=f"{flag}: {wrong} is no whole number")
        self.refused("--stages", 1 << 20, "--microbatches", 1 << 20, says="too many")
        for wrong in ("0", "0.5", "-1", "nan", "inf", "x", ""):
            self.refused("--schedule", "automatic", *given("--memory-limit", wrong), says=f"--memory-limit: {wrong} is no number")
        for wrong in ("-0.1", "1.5", "nan", ""):
            self.refused(*given("--weight-share", wrong), says=f"--weight-share: {wrong} is no number")

    def test_times(self):
        for wrong in ("-1,1,1,0", "nan,1,1,0", "1,nan,1,0", "inf,1,1,1", "1,,1,1", "", "1;1;1;1", "1,1,1,x", "1,1,1,-0.5", "1e999,1,1,1"):
            self.refused(*given("--times", wrong), says="is no number")
        for wrong in ("1", "1,1,1", "1,1,1,0,0"):
            self.refused(*given("--times", wrong), says="not the four F,B,W,COMM")

    def test_names(self):
        for wrong in ("foo", "1F1B", "zb-v "):
            result = self.run_program("--schedule", wrong)
            self.assertEqual(result.returncode, 2)
            for name in NAMES:
                self.assertIn(name, result.stderr.decode())
        self.refused("--schedule", "", says="no schedule is called ''")
        self.refused("--bogus", says="--bogus")
        self.refused("extra", says="extra")
        self.refused("--stages", says="--stages")

    def test_what_a_schedule_cannot_do(self):
        self.refused("--schedule", "zb-v", "--chunks", 3, says="has 2 chunks per rank, not 3")
        self.refused("--schedule", "zb-v", "--chunks", 1, says="has 2 chunks per rank, not 1")
        for name in ("gpipe", "1f1b", "zb-h1", "zb-h2"):
            self.refused("--schedule", name, "--chunks", 2, says="has 1 chunk per rank, not 2")
        self.refused("--schedule", "automatic", "--chunks", 2, says="2")
        self.refused("--schedule", "automatic", "--stages", 5000, "--microbatches", 5000, says="5000")

    def test_files(self):
        for flag in ("--svg", "--csv"):
            self.refused_after_printing(flag, "/nonexistent/file")
            self.refused_after_printing(flag, self.folder)
            self.refused(flag, "", says="the name of the file is empty")
        self.refused("--svg", self.path("a"), "--csv", self.path("a"), says="name the same file")
        self.refused("--svg", os.path.join(self.path("."), ".", "a"), "--csv", self.path("a"), says="--svg and --csv name the same file")
        self.refused("--trace", self.path("a"), "--svg", self.path("a"), says="--svg and --trace name the same file")
        self.refused("--trace", self.path("."), says="is a directory")
        self.refused("--trace", "", says="the name of the file is empty")
        if os.path.exists("/dev/full"):
            self.refused_after_printing("--svg", "/dev/full")
            self.refused_after_printing("--csv", "/dev/full")
            with open("/dev/full", "wb") as full:
                for arguments in ((), ("--json",)):
                    result = self.run_program(*arguments, stdout=full)
                    self.assertEqual((result.returncode, result.stderr), (2, b"show_schedule: the output can't be written\n"))

    def refused_after_printing(self, flag, file):
        result = self.run_program("--json", flag, file)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr.decode(), rf"\Ashow_schedule: {re.escape(file)} can't be written: [^\n]+\n\Z")


class Large(Case):
    def test_hundreds(self):
        for name in NAMES:
            start = time.monotonic()
            figures = self.figures("--schedule", name, "--stages", 64, "--microbatches", 256, "--svg", self.path("picture.svg"),
                                   "--csv", self.path("table.csv"))
            self.assertLess(time.monotonic() - start, 60, name)  # seconds, on a machine that has nothing else to do
            self.assertGreaterEqual(figures["span"], 3 * 256 - 1e-6)
            self.assertEqual(len(self.read("table.csv").splitlines()), 64)
            self.picture("picture.svg")
            self.assertLess(os.path.getsize(self.path("picture.svg")), 8 << 20)


def event(name, pid, start, duration, stage, microbatch, chunk=0):
    return {"ph": "X", "name": name, "pid": pid, "tid": 0, "ts": start, "dur": duration,
            "args": {"microbatch": microbatch, "chunk": chunk, "stage": stage}}


def gpipe_of_two(step, pids=(0, 1)):
    """Two microbatches on two ranks, in microseconds: a forward takes 1000, a backward 2000, a step 9000."""
    at = 10000.0 * step
    rows = ((0, "forward", 0), (1000, "forward", 1), (5000, "backward", 0), (7000, "backward", 1)), \
           ((1000, "forward", 0), (2000, "forward", 1), (3000, "backward", 0), (5000, "backward", 1))
    return [event(name, pids[rank], at + start, 1000 if name == "forward" else 2000, rank, m)
            for rank in (0, 1) for start, name, m in rows[rank]]


class TraceCase(Case):
    def write(self, trace):
        with open(self.path("trace.json"), "wb") as file:
            file.write(trace if isinstance(trace, bytes) else json.dumps(trace).encode())

    def draw(self, *arguments):
        return self.show("--trace", self.path("trace.json"), "--svg", self.path("picture.svg"), *arguments)


class HostileTraces(TraceCase):
    GPIPE = ("--schedule", "gpipe", "--stages", 2, "--microbatches", 2)

    def test_last_step(self):
        """Of what is no step, or only begins one, nothing is drawn."""
        events = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}}, *gpipe_of_two(0), *gpipe_of_two(1),
                  {"ph": "X", "name": "optimizer", "pid": 0, "tid": 0, "ts": 19000, "dur": 10}, event("forward", 0, 20000, 1000, 0, 0)]
        for trace in (events, {"displayTimeUnit": "ms", "traceEvents": events}):
            self.write(trace)
            text = self.draw(*self.GPIPE)
            self.assertIn("measured: step 9 ms, with a barrier before the optimizer 9 ms, bubble 33.3 %", text)
            root = self.picture("picture.svg")
            self.assertEqual(self.boxes(root), 16)
            self.assertIn("measured: step 9 ms", " ".join(root.itertext()))
        self.assertEqual(self.figures(*self.GPIPE, "--trace", self.path("trace.json")), self.figures(*self.GPIPE))

    def test_another_schedule(self):
        """The numbers of a schedule say nothing of a trace of another."""
        self.write(gpipe_of_two(0))
        for other, says in ((("--schedule", "gpipe", "--stages", 2, "--microbatches", 3), "has 4 actions of rank 0 in a step, the schedule has 6"),
                            (("--schedule", "1f1b", "--stages", 2, "--microbatches", 2), "action 1 of rank 1 is forward of microbatch 1 in chunk 0, not backward")):
            result = self.run_program(*other, "--json", "--trace", self.path("trace.json"))
            self.assertEqual(result.returncode, 2)
            self.assertIn(says, result.stderr.decode())

    def test_replicas(self):
        """Of two pipelines the one with the lowest ranks."""
        late = [dict(e, ts=e["ts"] + 500, dur=e["dur"] * 2) for e in gpipe_of_two(0, (2, 3))]
        self.write(gpipe_of_two(0) + late)
        self.assertIn("measured: step 9 ms", self.draw(*self.GPIPE))

    def test_other_traces(self):
        for trace, says in ((None, "can't be read"), (b"", "is no Chrome trace"), (b"<svg/>", "is no Chrome trace"), (b'{"traceEvents":[', "is no Chrome trace"),
                            (b"{}", "is no Chrome trace"), (b"[]", "no action of a schedule"), (b"[" * 5000, "is no Chrome trace"),
                            (gpipe_of_two(0) + [event("backward", 0, 0, 1, 2, 0)], "which the schedule has not"),
                            (gpipe_of_two(0) + [event("backward", 0, 0, 1, 0, 2)], "which the schedule has not"),
                            (gpipe_of_two(0) + [event("forward", 0, 0, 1, 0, 0, 1)], "which the schedule has not"),
                            (gpipe_of_two(0) + [event("forward", 0, 0, -1, 0, 0)], "has an event at"),
                            (gpipe_of_two(0) + [event("forward", 0, 1e301, 1, 0, 0)], "has an event at")):
            if trace is not None:
                self.write(trace)
            result = self.run_program(*self.GPIPE, "--json", "--trace", self.path("trace.json"))
            self.assertEqual(result.returncode, 2, trace)
            self.assertRegex(result.stderr.decode(), r"\Ashow_schedule: the trace [^\n]+\n\Z")
            self.assertIn(says, result.stderr.decode())

    def tried(self):
        result = self.run_program(*self.GPIPE, "--json", "--trace", self.path("trace.json"), "--svg", self.path("picture.svg"))
        self.assertIn(result.returncode, (0, 2), self.read("trace.json") + result.stderr.decode())
        if result.returncode == 0:
            self.picture("picture.svg")
        return result.returncode

    def test_mangled_bytes(self):
        chance = random.Random(3)
        parts = [b"-", b"1e999", b"null", b"[", b"{", b'"', b"99999999999999999999", b"-1e308", b"true", b",", b"1e308"]
        whole = json.dumps(gpipe_of_two(0)).encode()
        codes = set()
        for _ in range(150):
            trace = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(trace))
                match chance.randrange(4):
                    case 0:
                        trace[at] = chance.randrange(32, 127)
                    case 1:
                        del trace[at : at + chance.randint(1, 20)]
                    case 2:
                        trace[at:at] = chance.choice(parts)
                    case 3:
                        trace = trace[: max(1, at)]
            self.write(bytes(trace))
            codes.add(self.tried())
        self.assertIn(2, codes)

    def test_mangled_values(self):
        chance = random.Random(4)
        values = [-1, 0, 3, 1e308, -1e308, 1e18, 2**63, -(2**63), 2**64, None, "x", [], {}, True, 0.5, "forward"]
        codes = set()
        for _ in range(150):
            events = copy.deepcopy(gpipe_of_two(0))
            for _ in range(chance.randint(0, 2)):
                changed = chance.choice(events)
                key = chance.choice(["ts", "dur", "pid", "name", "ph", "args", "microbatch", "chunk", "stage"])
                inner = changed if key in changed else changed["args"]
                if isinstance(inner, dict):
                    inner[key] = chance.choice(values)
            self.write(events)
            codes.add(self.tried())
        self.assertEqual(codes, {0, 2})


class Traces(TraceCase):
    def test_training(self):
        """The last of three steps that two ranks have recorded, with validations between and after them."""
        train_gpt, mpiexec, flag = TRAINING
        for name in ("1f1b", "zb-v", "interleaved"):
            chunks = ("--chunks", "2") if name == "interleaved" else ()
            flags = ["--pipeline", "2", "--schedule", name, *chunks, "--microbatches", "4", "--layers", "4", "--heads", "2", "--width", "16",
                     "--context", "16", "--batch", "8", "--steps", "3", "--validate-every", "2", "--sample", "0"]
            subprocess.run([mpiexec, flag, "2", train_gpt, *flags, "--trace", self.path("trace.json")], stdout=subprocess.DEVNULL, timeout=200,
                           check=True)
            shape = ("--schedule", name, *chunks, "--stages", 2, "--microbatches", 4)
            self.assertRegex(self.draw(*shape), r"measured: step [0-9.e-]+ ms, .*bubble [0-9.]+ %")
            self.assertEqual(self.notes, "")
            both = self.boxes(self.picture("picture.svg"))
            self.show(*shape, "--svg", self.path("plan.svg"))
            self.assertEqual(both, 2 * self.boxes(self.picture("plan.svg")), name)


unittest.main(argv=[sys.argv[0], CLASS])
