"""Regard against PyTorch on a CUDA device: what `bench/compare --device cuda` runs.

    bench/compare --device cuda                         all workloads, a table on the terminal
    bench/compare --device cuda gpt2 shakespeare        some of them
    bench/compare --device cuda --record                and write the table, all rounds and the machine to bench/runs/<date>-<gpu>/

All programs compile and warm up first, side by side. Then they take turns, never two at a time, in an order that is swapped from round to round.
Power and clock are those of the device while a program had its turn. A ratio is PyTorch's time divided by Regard's.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import threading
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
REGARD, PYTORCH = "regard", "pytorch"
# Seconds between samples of power and clock.
EVERY = 0.5


def note(text):
    print(text, file=sys.stderr, flush=True)


def output_of(command, **settings):
    """What a command prints, or `None` if it cannot be run or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, **settings).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


class Gauge:
    """Power (W) and clock (MHz) of the device, sampled while something runs."""

    def __enter__(self):
        every = str(int(EVERY * 1000))
        command = ["nvidia-smi", "--query-gpu=power.draw,clocks.sm", "--format=csv,noheader,nounits", "-lms", every]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.reader.join()

    def reading(self, seconds):
        pairs = [line.split(",") for line in self.lines if re.fullmatch(r"[\d.]+, *\d+\s*", line)]
        # A turn ends with what is timed: before that, a program reads or draws its inputs.
        pairs = pairs[-max(2, int(seconds / EVERY)) :]
        if not pairs:
            return {}
        power, clock = (statistics.median(float(pair[i]) for pair in pairs) for i in range(2))
        return {"watts": power, "mhz": clock}


class Regard:
    """A process a turn. Kernels and the choice of algorithms are kept on disk by the first one."""

    def __init__(self, program, work, seconds):
        self.command = [program, "bench", work, "--json", "--device", "cuda", "--precision", "bf16", "--seconds"]
        self.work, self.seconds = work, seconds
        self.first = self.start(0.05)

    def start(self, seconds):
        return subprocess.Popen([*self.command, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def warm(self):
        return self.answer(self.first)

    def run(self):
        return self.answer(self.start(self.seconds))

    def answer(self, process):
        out, errors = process.communicate()
        if process.returncode != 0 or not out.strip():
            return {"work": self.work, "engine": REGARD, "error": (errors.strip().splitlines() or ["it failed"])[-1]}
        return json.loads(out.strip().splitlines()[-1])

    def close(self):
        pass


class PyTorch:
    """A process a workload, which stays warm."""

    def __init__(self, python, work, seconds):
        command = [python, str(BENCH / "pytorch_cuda.py"), work, "--seconds", str(seconds)]
        self.work = work
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def line(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"work": self.work, "engine": PYTORCH, "error": "it ended; run bench/pytorch_cuda.py to see why"}

    def warm(self):
        return self.line()

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def rounds_of(engines, count, seconds):
    """All turns of one workload: a list of {engine: result}."""
    rounds = []
    for turn in range(count):
        order = list(engines) if turn % 2 == 0 else list(reversed(engines))
        results = {}
        for engine in order:
            with Gauge() as gauge:
                results[engine] = engines[engine].run()
            results[engine].update(gauge.reading(seconds))
        rounds.append(results)
    return rounds


def values(rounds, engine, field):
    return [turn[engine][field] for turn in rounds if field in turn.get(engine, {})]


def median(rounds, engine, field):
    numbers = values(rounds, engine, field)
    return statistics.median(numbers) if numbers else None


def number(value, digits=3):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:#.{digits}g}"


def rate(work, ms):
    """What a user counts: tokens, texts or TFLOP a second."""
    if ms is None:
        return "–"
    return f"{number(work['amount'] / ms * 1e3, 4)} {work['unit']}/s"


def row(work, rounds):
    ratios = [turn[PYTORCH]["ms"] / turn[REGARD]["ms"] for turn in rounds if all("ms" in turn.get(e, {}) for e in (REGARD, PYTORCH))]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})" if ratios else "–"
    cells = [f"`{work['name']}`"]
    for engine in (REGARD, PYTORCH):
        ms = median(rounds, engine, "ms")
        cells += [number(ms, 4) if ms else "failed", rate(work, ms)]
    cells += [ratio, work["mode"], f"{work['target']:g}", f"{work['goal']:g}"]
    for engine in (REGARD, PYTORCH):
        cells.append(number(max(values(rounds, engine, "peak_mb"), default=None)))
    for engine in (REGARD, PYTORCH):
        cells.append(f"{number(median(rounds, engine, 'watts'))} / {number(median(rounds, engine, 'mhz'), 5)}")
    return cells


HEADINGS = ["work", "regard ms", "regard", "PyTorch ms", "PyTorch", "ratio", "mode", "target", "goal", "regard MB", "PyTorch MB", "regard W / MHz", "PyTorch W / MHz"]


def table(workloads, results):
    rows = [HEADINGS] + [row(work, results[work["name"]]) for work in workloads]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |" for cells in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def failures(results):
    lines = [
        f"{engine} failed on {work}: {turn[engine]['error']}"
        for work, rounds in results.items()
        for turn in rounds[:1]
        for engine in turn
        if "error" in turn[engine]
    ]
    return "\n".join(lines)


def summary(workloads, results, options):
    legend = (
        f"Medians of {options.rounds} interleaved rounds of {options.seconds:g} s each (attention: half of it), bf16. "
        "Ratio: PyTorch ÷ regard; above 1, regard is faster. MB: the most memory of the device."
    )
    return "\n\n".join(filter(None, [table(workloads, results), failures(results), legend]))


def machine(options, ready):
    about = output_of(["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"]) or "unknown"
    commit = output_of(["git", "rev-parse", "HEAD"], cwd=ROOT)
    return {
        "gpu": about.splitlines()[0],
        "torch": ready.get("torch"),
        "regard": output_of([options.regard, "--version"]),
        "commit": options.commit or commit,
        "date": datetime.date.today().isoformat(),
    }


def record_folder(options, about):
    slug = re.sub(r"[^a-z0-9]+", "-", about["gpu"].split(",")[0].lower()).strip("-") or "unknown"
    folder = Path(options.folder) if options.folder else BENCH / "runs" / f"{about['date']}-{slug}"
    if folder.exists() and not options.force:
        sys.exit(f"error: {folder} exists; --force overwrites it")
    return folder


def record(folder, text, results, about, options):
    folder.mkdir(parents=True, exist_ok=True)
    rounds = {"rounds": options.rounds, "seconds": options.seconds, "results": results}
    for name, content in (("results.json", rounds), ("machine.json", about)):
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "table.md").write_text(f"# {about['date']}: {about['gpu']}\n\n{about['regard']}, PyTorch {about['torch']}\n\n{text}\n", encoding="utf-8")


def parse(workloads):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", help="names of workloads (default: all)")
    parser.add_argument("--device", choices=["cuda"], default="cuda")
    parser.add_argument("--rounds", type=int, default=2, help="how often each takes its turn (default: 2)")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for each turn (default: 5)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch")
    parser.add_argument("--regard", help="a built program, instead of building this one")
    parser.add_argument("--record", action="store_true", help="write bench/runs/<date>-<gpu>/")
    parser.add_argument("--folder", help="write the record there instead")
    parser.add_argument("--commit", help="the commit that --regard was built from, where there is no git")
    parser.add_argument("--force", action="store_true", help="overwrite a record of today")
    options = parser.parse_args()
    unknown = [name for name in options.work if name not in {work["name"] for work in workloads}]
    if unknown:
        parser.error(f"unknown workload {unknown[0]}; there are: {', '.join(work['name'] for work in workloads)}")
    return options


def build():
    if subprocess.run(["cargo", "build", "--release", "--locked", "-p", "regard"], cwd=ROOT).returncode != 0:
        sys.exit("error: cargo could not build regard")
    metadata = json.loads(output_of(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT) or "{}")
    return str(Path(metadata["target_directory"]) / "release/regard")


def main():
    workloads = json.loads((BENCH / "workloads.json").read_text(encoding="utf-8"))["cuda"]
    options = parse(workloads)
    options.regard = options.regard or build()
    chosen = [work for work in workloads if not options.work or work["name"] in options.work]
    note("compiling and warming up, side by side")
    engines = {
        work["name"]: {
            REGARD: Regard(options.regard, work["name"], options.seconds * work.get("share", 1)),
            PYTORCH: PyTorch(options.python, work["name"], options.seconds * work.get("share", 1)),
        }
        for work in chosen
    }
    ready, results = {}, {}
    for name, both in engines.items():
        for engine, program in list(both.items()):
            said = program.warm()
            if "error" in said:
                note(f"{engine} failed on {name}: {said['error']}")
                results.setdefault(name, [{}])[0][engine] = said
                both.pop(engine)
            elif engine == PYTORCH:
                ready = said
    about = machine(options, ready)
    folder = record_folder(options, about) if options.record or options.folder else None
    for done, work in enumerate(chosen, start=1):
        failed = results.get(work["name"], [{}])[0]
        rounds = rounds_of(engines[work["name"]], options.rounds, options.seconds * work.get("share", 1))
        results[work["name"]] = [{**failed, **turn} for turn in rounds]
        note(" ".join(row(work, results[work["name"]])))
        for program in engines[work["name"]].values():
            program.close()
        # A comparison that is cut off leaves what it had measured.
        text = summary(chosen[:done], results, options)
        if folder:
            record(folder, text, results, about, options)
    print(text)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(130)
