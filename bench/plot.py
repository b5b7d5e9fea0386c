#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures and tables of saved results:  plot.py README FOLDER NAME…

Reads FOLDER/NAME.json (results.py), draws FOLDER/NAME*.svg, and puts tables and pictures into README between the lines
`<!-- measured: NAME -->` and `<!-- end -->`, instead of what stands there. `sh cmake/bench.sh report` runs it.
"""

import json
import math
import os
import re
import sys
import textwrap
from html import escape
from statistics import median

STYLE = """<style>
.paper{fill:#fff}.ink{fill:#1a1a1a}.soft{fill:#5b6169}.grid{stroke:#e2e2e2}.one{stroke:#8a9099}.line{stroke:#efefef}
.m0{fill:#0072b2;stroke:#0072b2}.m1{fill:none;stroke:#c24e00}.m2{fill:none;stroke:#6b7079}
@media (prefers-color-scheme:dark){.paper{fill:#15181d}.ink{fill:#e8e8e8}.soft{fill:#a3aab4}.grid{stroke:#333941}.one{stroke:#79818c}
.line{stroke:#20242a}.m0{fill:#56b4e9;stroke:#56b4e9}.m1{fill:none;stroke:#f0a04b}.m2{fill:none;stroke:#a3aab4}}
</style>"""
SHAPES = ("M{0} {1}m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0", "M{0} {1}m-5 0l5 -5l5 5l-5 5z", "M{0} {1}m0 -8v16")


class Case:
    """The rivals' times of one case, in seconds; ours is `kerkis`."""

    def __init__(self):
        self.times, self.errors, self.counters = {}, {}, {}

    def get(self, rival):
        return self.times.get(rival)


def load(path):
    """The context, and the cases by label and name."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    cases = {}
    for entry in data["benchmarks"]:
        name, _, rival = entry["name"].rpartition("/")
        case = cases.setdefault(entry["label"], {}).setdefault(tuple(name.split("/")[1:]), Case())
        if entry.get("error_occurred"):
            case.errors[rival] = entry["error_message"]
            continue
        case.times[rival] = entry["real_time"] * units[entry["time_unit"]]
        case.counters[rival] = entry
    return data["context"], cases


def size(count):
    count = int(count)
    for unit, power in (("MiB", 20), ("KiB", 10)):
        if count >= 1 << power and count % (1 << power) == 0:
            return f"{count >> power} {unit}"
    return f"{count} B"


def digits(value):
    return "—" if value is None else f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def unit_of(seconds):
    return (1e6, "µs") if seconds < 1e-3 else (1e3, "ms")


def table(header, rows):
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]


def times(case, rivals, scale):
    return " / ".join(digits(None if (time := case.get(rival)) is None else scale * time) for rival in rivals) if case else ""


def grid(cases, rivals, first, row_name=str):
    """A table of operations by sizes: the rivals' times, each column in its own unit. Keys: operation, ranks, bytes."""
    sizes = sorted({int(key[2]) for key in cases} - {0})
    scales = [unit_of(median(case.times["kerkis"] for key, case in cases.items() if int(key[2]) == n)) for n in sizes]
    rows = []
    for operation, ranks in dict.fromkeys(key[:2] for key in cases):
        cells = [cases.get((operation, ranks, str(n))) for n in sizes]
        cells[0] = cells[0] or cases.get((operation, ranks, "0"))
        rows.append([row_name(operation), *(times(case, rivals, scale) for case, (scale, _) in zip(cells, scales))])
    return table([first, *(f"{size(n)}, {unit}" for n, (_, unit) in zip(sizes, scales))], rows)


# ---- pictures


def ticks(low, high, log):
    if log:
        steps = [n * 10.0**power for power in range(-4, 5) for n in (1, 2, 5)]
        inside = [step for step in steps if low * 0.999 <= step <= high * 1.001]
        return inside if len(inside) <= 7 else [step for step in inside if math.log10(step).is_integer()]
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(n for n in (1, 2, 5, 10) if (high - low) / (n * step) <= 4)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def dots(title, note, rivals, rows, panels, axis="log"):
    """A picture: a line for each row, a column for each panel {title: {row: {rival: value}}}. A logarithmic axis is the same in all panels,
    and shows where 1 is. Other axes are (low, high), or None: as each panel needs it."""
    log = axis == "log"
    left, top, row_height, gap = 24 + 6.6 * max(map(len, rows)), 100, 20, 24
    width = max(820, left + 300)
    panel_width = (width - left - 16 - gap * (len(panels) - 1)) / len(panels)
    bottom = top + row_height * len(rows)
    height = bottom + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
        'font-family="system-ui,sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        STYLE,
        '<rect class="paper" width="100%" height="100%"/>',
    ]

    def text(x, y, words, style="ink", more=""):
        out.append(f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>')

    def mark(kind, x, y):
        out.append(f'<path class="m{kind}" stroke-width="2" d="{SHAPES[kind].format(f"{x:.1f}", f"{y:.1f}")}"/>')

    text(12, 24, title, more=' font-size="16" font-weight="600"')
    text(12, 42, note, "soft")
    x = 18.0
    for kind, rival in enumerate(rivals):
        mark(kind, x, 58)
        text(x + 11, 62, rival)
        x += 36 + 6.6 * len(rival)
    for i, row in enumerate(rows):
        y = top + row_height * (i + 0.5)
        text(left - 12, y + 4, row, more=' text-anchor="end"')
        out.append(f'<path class="line" d="M{left:.1f} {y}H{width - 16:.1f}"/>')
    everything = [value for panel in panels.values() for values in panel.values() for value in values.values()]
    for i, (name, panel) in enumerate(panels.items()):
        begin = left + i * (panel_width + gap)
        mine = everything if log else [value for values in panel.values() for value in values.values()]
        low, high = min(mine), max(mine)
        margin = 0.1 * (high - low or high)
        low, high = (min(low, 0.55) / 1.1, max(high, 2) * 1.05) if log else axis or (low - margin, high + margin)

        def place(value):
            part = math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)
            return begin + 6 + (panel_width - 12) * part

        text(begin + panel_width / 2, top - 8, name, more=' font-weight="600" text-anchor="middle"')
        for tick in ticks(low, high, log):
            style = "one" if log and tick == 1 else "grid"
            out.append(f'<path class="{style}" d="M{place(tick):.1f} {top}V{bottom}"/>')
            text(place(tick), bottom + 16, f"{tick:g}", "soft", ' font-size="11" text-anchor="middle"')
        for j, row in enumerate(rows):
            for kind, rival in reversed(list(enumerate(rivals))):  # ours on top
                if (value := panel.get(row, {}).get(rival)) is not None:
                    mark(kind, place(value), top + row_height * (j + 0.5))
    return "\n".join([*out, "</svg>", ""])


def relative(case, rivals, to):
    return {rival: case.times[rival] / case.times[to] for rival in rivals if rival in case.times}


# ---- what the README shows of each benchmark: lines of text, and pictures {name: (alternative text, svg)}


def machine(context):
    return f"{context['num_cpus']} cores ({', '.join([context['cpu'], *filter(None, [context.get('mpi')])])})"


def beside(part):
    """What operations take more than the same nonblocking call, as the rounds say in which both ran."""
    ours = {key: case.counters["kerkis"] for key, case in part.items()}
    more = sorted(one["more"] for key, one in ours.items() if int(key[2]) < 64 << 10)
    times = sorted(1 / one["ratio"] for key, one in ours.items() if int(key[2]) >= 64 << 10)
    text = f"Within a round kerkis takes {more[0]:.2f} to {more[-1]:.2f} µs more than the nonblocking call below 64 KiB"
    return f"{text}; from there on {times[0]:.2f} to {times[-1]:.2f} times as long." if times else f"{text}."


def comm(context, cases):
    rivals = ("kerkis", "nonblocking MPI", "blocking MPI")
    lines, pictures = [], {}
    if part := cases.get("operations"):
        lines += [
            f"Communication: two ranks on {machine(context)}; float in host memory. In each cell kerkis / the same nonblocking MPI call, "
            "waited for as kerkis does / the blocking MPI call; a size is what one rank gives or gets; a hand-off is half of a round trip; medians "
            "of interleaved rounds: `sh cmake/bench.sh comm`.",
            "",
            *grid(part, rivals, "operation", lambda name: f"`{name}`" if name != "barrier" else "`barrier` (no data)"),
            "",
            beside(part),
        ]
        panels = {}
        for (operation, _, count), case in part.items():
            panels.setdefault(size(count), {})[operation] = relative(case, ("kerkis", "blocking MPI"), "nonblocking MPI")
        if "0 B" in panels:
            next(panel for name, panel in panels.items() if name != "0 B").update(panels.pop("0 B"))
        pictures["comm"] = (
            "operations of kerkis beside MPI",
            dots(
                "Operations of two ranks beside MPI",
                "time ÷ time of the same nonblocking MPI call with the same wait; left of 1 is faster than that",
                ("kerkis", "blocking MPI"),
                list(dict.fromkeys(key[0] for key in part)),
                panels,
            ),
        )
    if part := cases.get("views"):
        says = {
            "column": "a column of a matrix",
            "inner_block": "the middle of a matrix",
            "face_of_rows": "a face of a grid, in rows",
            "face_of_points": "a face of a grid, in points",
        }
        rows = []
        for shape in dict.fromkeys(key[0] for key in part):
            mine = [(key[2], case) for key, case in part.items() if key[0] == shape]
            cells = []
            for count, case in mine:
                scale, unit = unit_of(case.times["kerkis"])
                cells.append(f"{size(count)}: {times(case, rivals[:2], scale)} {unit}")
            rows.append([says.get(shape, shape), *cells])
        columns = max(len(row) for row in rows) - 1
        rows = [row + [""] * (columns + 1 - len(row)) for row in rows]
        lines += [
            "",
            "Views with gaps, handed over as they lie: kerkis / an MPI derived type of the same elements, nonblocking.",
            "",
            *table(["View of double", "there and back, halved", *[""] * (columns - 1)], rows),
        ]
        labels = {key: f"{key[0]}, {size(key[2])}" for key in part}
        labels = dict(sorted(labels.items(), key=lambda item: (list(says).index(item[0][0]), int(item[0][2]))))
        pictures["comm_views"] = (
            "Views with gaps beside MPI's derived types",
            dots(
                "Views with gaps beside MPI's derived types",
                "time of a hand-off ÷ that of a nonblocking MPI call with a derived type; left of 1 is faster than that",
                ("kerkis", "blocking MPI"),
                list(labels.values()),
                {"": {label: relative(part[key], ("kerkis", "blocking MPI"), "nonblocking MPI") for key, label in labels.items()}},
            ),
        )
    if part := cases.get("crowded"):
        ranks = next(iter(part))[1]
        lines += [
            "",
            f"More ranks than cores ({ranks} on {context['num_cpus']}): kerkis / the blocking MPI call. (What a rank may send off without "
            "waiting for anybody, as a few bytes to or from a root, takes that one no longer.)",
            "",
            *grid(part, ("kerkis", "blocking MPI"), "operation", lambda name: f"`{name}`"),
        ]
    if part := cases.get("asio"):
        lines += [
            "",
            "Boost.Asio: an operation awaited by a coroutine / by `wait`.",
            "",
            *grid({(key[0].removeprefix("asio_"), *key[1:]): case for key, case in part.items()}, ("kerkis", "wait"), "operation"),
        ]
    if part := cases.get("hosts"):
        (_, _, count), case = next(iter(part.items()))
        share = 100 * case.counters["kerkis"]["ratio"]
        lines += ["", f"{size(count)} between two hosts: {share:.1f} % of the line's rate."]
    if part := cases.get("include"):
        base, header, whole = (part[key].times for key in (("comm",), ("comm",), ("kerkis",)))
        lines += [
            "",
            f"To compile: Kokkos_Core.hpp and mpi.h {base['Kokkos and MPI']:.2f} s, `kerkis/comm/all_reduce.hpp` {header['kerkis']:.2f} s, "
            f"`kerkis/kerkis.hpp` {whole['kerkis']:.2f} s.",
        ]
    return lines, pictures


def pipeline(context, cases):
    rivals = ("kerkis", "PyTorch", "simulated")
    label, part = next((label, part) for label, part in cases.items() if label.startswith("width "))
    counts = sorted({key[1] for key in part}, key=int)
    schedules = list(dict.fromkeys(key[0] for key in part))
    shown = ("kerkis", "simulated", "PyTorch")
    rows = [[f"`{name}`", *(times(part.get((name, m)), shown, 1e3) for m in counts)] for name in schedules]
    with_rival = any("PyTorch" in case.times or case.errors for case in part.values())
    theirs = ""
    if with_rival:
        theirs = (
            f" / `torch.distributed.pipelining` of {context.get('torch', 'PyTorch')} over Gloo (where it hangs, it is started again with the "
            "requests kept that it drops; —: it has no such schedule, or did not finish)"
        )
    else:
        rows = [[cell.removesuffix(" / —") for cell in row] for row in rows]
    lines = [
        f"Steps of a pipeline (forward and backward, no optimizer), one thread per rank, on {machine(context)}; {label}. In each cell kerkis / "
        f"what the simulator says for the times of that step's actions{theirs}, in ms, turn by turn, best of several: "
        "`sh cmake/bench.sh pipeline`.",
        "",
        *table(["schedule", *(f"{m} microbatches" for m in counts)], rows),
    ]
    if "zero-bubble" in schedules:
        lines += ["", "`zero-bubble` is PyTorch's own order of actions, run by both."]
    errors = {}
    for (name, m), case in part.items():
        for why in case.errors.values():
            errors.setdefault(why, []).append(f"{name} × {m}")
    lines += ["" if errors else None, *(f"PyTorch, {', '.join(where)}: {why}." for why, where in errors.items())]
    facts = []
    if case := cases.get("overhead", {}).get(("overhead",)):
        facts.append(f"An action that does nothing costs {digits(1e6 * case.times['kerkis'])} µs outside MPI.")
    if case := cases.get("gain", {}).get(("gain_of_zb-h1",)):
        facts.append(
            f"zb-h1 is faster than 1f1b by {1e3 * case.times['kerkis']:.2f} ms, simulated {1e3 * case.times['simulated']:.2f} ms (paired steps)."
        )
    if trips := cases.get("hand_off"):
        said = ", ".join(f"{size(key[1])} {times(case, ('kerkis', 'MPI'), 1e6)} µs" for key, case in trips.items())
        facts.append(f"Round trips, kerkis / MPI alone: {said}.")
    lines += ["", " ".join(facts)] if facts else []
    panels = {
        f"{m} microbatches": {name: {rival: 1e3 * time for rival, time in part[name, m].times.items()} for name in schedules if (name, m) in part}
        for m in counts
    }
    shown = rivals if with_rival else ("kerkis", "simulated")
    picture = dots("Steps of a pipeline of two ranks", f"ms, axes do not begin at 0; {label}", shown, schedules, panels, None)
    return [line for line in lines if line is not None], {"pipeline": ("steps of a pipeline, measured, simulated, and by PyTorch", picture)}


def reproducible(context, cases):
    lines, pictures, panels = [], {}, {}
    says = {
        "reproducible": ("plain", "`reproducible` / plain `all_reduce`", "reproducible ÷ plain"),
        "shards": ("sum of shards, plain", "by shards / their sum, then a plain `all_reduce`", "by shards ÷ sum, then plain"),
    }
    sizes = []
    rows = []
    for kind, (rival, words, panel) in says.items():
        part = cases[kind]
        ranks, sizes = next(iter(part))[1], [key[2] for key in part]
        scales = [unit_of(case.times["kerkis"]) for case in part.values()]
        rows.append([words, *(f"{times(case, ('kerkis', rival), scale)} {unit}" for case, (scale, unit) in zip(part.values(), scales))])
        panels[panel] = {size(key[2]): relative(case, ("kerkis",), rival) for key, case in part.items()}
    lines = [
        f"Sums with the same bits on any number of ranks: an `all_reduce` of float, {ranks} ranks on {machine(context)}, medians: "
        "`sh cmake/bench.sh reproducible`.",
        "",
        *table(["", *map(size, sizes)], rows),
    ]
    note = "time ÷ time of the plain sum of the same numbers; left of 1 is faster than that"
    pictures["reproducible"] = (
        "reproducible sums beside plain ones",
        dots("Reproducible sums beside plain ones", note, ("kerkis",), [size(n) for n in sizes], panels),
    )
    return lines, pictures


def train_step(context, cases):
    rows, panels, labels = [], {}, {}
    for label, part in cases.items():
        numbers = dict(re.findall(r"(\w+) (\d+)", label))
        for (ranks, width), case in part.items():
            shape = ", ".join(numbers[word] for word in ("width", "layers", "context", "batch"))
            ours, theirs = case.counters["kerkis"], case.counters.get("PyTorch")
            cells = [f"{digits(ours['real_time'])} ms", f"{ours['share']} %"]
            if theirs:
                cells += [f"{digits(theirs['real_time'])} ms", f"{theirs['share']} %", digits(ours["ratio"])]
            rows.append([int(ranks), [shape, ranks if ranks == "1" else f"{ranks} (data)", *cells]])
            labels[int(width)] = f"width {width}, {numbers['layers']} layers"
            panel = panels.setdefault(f"{ranks} rank" + ("" if ranks == "1" else "s"), {})
            panel[labels[int(width)]] = {rival: entry["share"] for rival, entry in case.counters.items()}
    header = ["width, layers, context, batch per rank", "ranks", "kerkis", "share"]
    rivals = ("kerkis",)
    if any(len(cells) > 4 for _, cells in rows):
        header, rivals = [*header, "PyTorch", "share", "ratio"], ("kerkis", "PyTorch")
    theirs = ", best of several"
    if len(rivals) > 1:
        theirs = (
            f", and of {context.get('torch', 'PyTorch')} (fused AdamW, fused attention, DistributedDataParallel over Gloo), turn by turn, best of "
            "several"
        )
    lines = [
        "Whole training steps (forward, backward, clipping, AdamW; float, one thread per rank) of kerkis on "
        f'{machine(context)}{theirs}: `sh cmake/bench.sh train_step`. "Share" is of the machine\'s speed in large matrix products, measured in '
        "the same run.",
        "",
        *table(header, [cells for _, cells in sorted(rows, key=lambda row: row[0])]),
    ]
    note = "% of the machine's speed in large matrix products; further right is faster"
    rows = [labels[width] for width in sorted(labels, reverse=True)]
    return lines, {"train_step": ("training steps of kerkis and of PyTorch", dots("Training steps", note, rivals, rows, panels, (0, 100)))}


def fill(line):
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), line)  # commands are not broken
    return textwrap.fill(whole, 140, break_on_hyphens=False).replace("\0", " ")


def main():
    shows = {show.__name__: show for show in (comm, pipeline, reproducible, train_step)}
    if len(sys.argv) < 4 or not set(sys.argv[3:]) <= set(shows):
        sys.exit("usage: plot.py README FOLDER NAME…; names: " + " ".join(shows))
    readme, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    for name in names:
        begin, end = f"<!-- measured: {name} -->\n", "<!-- end -->\n"
        if not re.search(re.escape(begin) + r"(?:(?!<!-- measured).)*?" + re.escape(end), text, re.S):
            sys.exit(f"plot.py: {readme} has no lines {begin.strip()} … {end.strip()}")
        lines, pictures = shows[name](*load(os.path.join(folder, name + ".json")))
        for picture, (words, svg) in pictures.items():
            path = os.path.join(folder, picture + ".svg")
            with open(path, "w", encoding="utf-8") as file:
                file.write(svg)
            lines += ["", f"![{words}]({os.path.relpath(path, os.path.dirname(os.path.abspath(readme)))})"]
        lines = [line if line.startswith(("|", "!")) else fill(line) for line in lines]
        before, rest = text.split(begin, 1)
        text = before + begin + "\n".join(["", *lines, "", ""]) + end + rest.split(end, 1)[1]
    with open(readme, "w", encoding="utf-8") as file:
        file.write(text)


main()
