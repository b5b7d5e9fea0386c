#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a benchmark has printed, as JSON in Google Benchmark's layout:  results.py NAME <OUTPUT >NAME.json

The printed tables are the only source: each time becomes an entry "CASE/RIVAL" with "real_time", and a line `ratio CASE VALUE` or
`ratio CASE/RIVAL VALUE` (the rival's time over ours) becomes "ratio" or "ratio_RIVAL" of the entry "CASE/kerkis". "label" says what the case
is of. A rival that can't run a case has "error_occurred" and "error_message".
"""

import datetime
import json
import os
import re
import sys

NUMBER = r"(-?[\d.]+)"


class Results:
    def __init__(self):
        self.entries = {}

    def add(self, case, label, unit, times, **ours):
        for rival, time in times.items():
            if time is not None:
                entry = {"name": f"{case}/{rival}", "label": label, "real_time": float(time), "time_unit": unit}
                self.entries[entry["name"]] = entry
        self.entries[f"{case}/kerkis"].update(ours)

    def failed(self, case, rival, label, why):
        name = f"{case}/{rival}"
        self.entries[name] = {"name": name, "label": label, "error_occurred": True, "error_message": why}

    def ratio(self, name, value):
        case, _, rival = name.rpartition("/")
        if f"{name}/kerkis" in self.entries:
            self.entries[f"{name}/kerkis"]["ratio"] = value
        elif f"{case}/kerkis" in self.entries:
            self.entries[f"{case}/kerkis"]["ratio_" + rival] = value
        else:
            sys.exit(f"results.py: no row for: ratio {name}")


def comm(results, lines):
    titles = {  # the title of a part: its name, the case
        r"(\d+) ranks, blocks of": ("operations", "comm/{operation}/{ranks}/{bytes}"),
        r"(\d+) ranks on": ("crowded", "comm/{operation}/{ranks}/{bytes}"),
        r"Views with gaps": ("views", "comm/{operation}/2/{bytes}"),
        r".* between two hosts": ("hosts", "comm/line_rate/2/{bytes}"),
        r"Boost.Asio": ("asio", "comm/asio_{operation}/2/{bytes}"),
    }
    rivals = {"asio": ("kerkis", "wait")}
    part, case, ranks = None, None, 2
    for line in lines:
        for title, (name, pattern) in titles.items():
            if found := re.match(title, line):
                part, case, ranks = name, pattern, found[1] if found.groups() else 2
        if found := re.match(rf"(\w+) +(\d+) +{NUMBER} µs +{NUMBER} µs +([+-][\d.]+) µs(?: +[\d.]+(?: +{NUMBER} µs)?)?", line):
            name = case.format(operation=found[1], ranks=ranks, bytes=found[2])
            names = rivals.get(part, ("kerkis", "nonblocking MPI", "blocking MPI"))
            results.add(name, part, "us", dict(zip(names, found.group(3, 4, 6))), more=float(found[5]))
        if found := re.match(rf"Kokkos_Core.hpp and mpi.h: {NUMBER} ms; \S+: {NUMBER} ms; \S+: {NUMBER} ms", line):
            for name, ours in (("comm", found[2]), ("kerkis", found[3])):
                results.add(f"include_cost/{name}", "include", "ms", {"kerkis": ours, "Kokkos and MPI": found[1]})


def reproducible(results, lines):
    ranks = next(line.split("/")[2] for line in lines if line.startswith("ratio comm/reproducible/"))
    for line in lines:
        if found := re.match(rf" *(\d+) +{NUMBER} µs +{NUMBER} µs +{NUMBER} µs +{NUMBER} µs$", line):
            size, plain, same, summed, shards = found.groups()
            results.add(f"comm/reproducible/{ranks}/{size}", "reproducible", "us", {"kerkis": same, "plain": plain})
            results.add(f"comm/shards/{ranks}/{size}", "shards", "us", {"kerkis": shards, "sum of shards, plain": summed})


def pipeline(results, lines):
    size = next((line for line in lines if line.startswith("width ")), "")
    for line in lines:
        if found := re.match(rf"(\S+) +(\d+) +{NUMBER} +{NUMBER} +[\d.]+ +{NUMBER} +{NUMBER} +{NUMBER} *(.*)", line):
            schedule, m, ours, simulated, forward, backward, weights, theirs = found.groups()
            case, is_time = f"pipeline/{schedule}/{m}", re.fullmatch(NUMBER, theirs)
            times = {"kerkis": ours, "simulated": simulated, "PyTorch": theirs if is_time else None}
            parts = {"forward": float(forward), "backward_or_input": float(backward), "weights": float(weights)}
            results.add(case, size, "ms", times, **parts)
            if theirs and not is_time:
                results.failed(case, "PyTorch", size, theirs)
        elif found := re.match(rf"an action that does nothing: {NUMBER} µs", line):
            results.add("pipeline/overhead", "overhead", "us", {"kerkis": found[1]})
        elif found := re.match(rf"round trip of +(\d+) bytes: +{NUMBER} µs, MPI alone +{NUMBER} µs", line):
            results.add(f"pipeline/hand_off/{found[1]}", "hand_off", "us", {"kerkis": found[2], "MPI": found[3]})
        elif found := re.match(rf"zb-h1 is faster than 1f1b by {NUMBER} ms, simulated {NUMBER} ms", line):
            results.add("pipeline/gain_of_zb-h1", "gain", "ms", {"kerkis": found[1], "simulated": found[2]})


def train_step(results, lines):
    for line in lines:
        if found := re.match(r"ranks (\d+), (width (\d+), .*)", line):
            case, label = f"train_step/{found[1]}/{found[3]}", found[2]
        if found := re.match(rf"  (kerkis|PyTorch) +{NUMBER} ms +(\d+) tokens/s +(\d+) %(?: of (\d+) GFLOP/s)?", line):
            more = {"items_per_second": int(found[3]), "share": int(found[4])}
            results.entries[f"{case}/{found[1]}"] = {
                "name": f"{case}/{found[1]}", "label": label, "real_time": float(found[2]), "time_unit": "ms", **more
            }


def include_cost(results, lines):
    comm(results, lines)


def comm_asio(results, lines):
    comm(results, ["Boost.Asio", *lines])


def context(name, lines):
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    text = "\n".join(lines)
    load = re.search(r"load before: (.*)", text)
    versions = {"mpi": re.search(r"^MPICH [\d.]+", text, re.M), "torch": re.search(r"^PyTorch [\d.]+", text, re.M)}
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "executable": name,
        "num_cpus": len(os.sched_getaffinity(0)),
        "cpu": models[0] if models else "unknown",
        "load_avg": [float(part) for part in load[1].split()] if load else [],
        **{what: found[0] for what, found in versions.items() if found},
    }


def main():
    readers = {reader.__name__: reader for reader in (comm, comm_asio, include_cost, pipeline, reproducible, train_step)}
    if len(sys.argv) != 2 or sys.argv[1] not in readers:
        sys.exit("usage: results.py " + "|".join(readers) + " <OUTPUT >JSON")
    name, lines = sys.argv[1], sys.stdin.read().splitlines()
    results = Results()
    readers[name](results, lines)
    for line in lines:
        if line.startswith("ratio "):
            _, case, value = line.split()
            results.ratio(case, float(value))
    if not results.entries:
        sys.exit(f"results.py: {name} has printed no times")
    rows = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in results.entries.values())
    print(f'{{"context": {json.dumps(context(name, lines))},\n"benchmarks": [\n{rows}\n]}}')


main()
