#!/usr/bin/env python3
"""How long the page's interactions take: the server's answers, at 16 and at 512 tokens, as a table for records/page.md.

    tools/page_times.py target/release/regard gpt2 [--lengths 16 512] [--repeat 5]

Run nothing else at the same time. Each interaction is measured REPEAT times on a new text; the median and the worst are shown. "Computed" are
answers from numbers that a forward pass left behind (the goal is 100 ms), "pass" those that need the model again (the goal is about one pass).
"""

import argparse
import json
import statistics
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

WORDS = "the cat sat on a mat because it was tired and the dog by the door looked at its ball".split()


def text(count, number):
    words = [WORDS[(i * 7 + number * 3) % len(WORDS)] for i in range(count)]
    return f"{number} " + " ".join(words)


class Server:
    def __init__(self, program, model):
        command = [program, "serve", model, "--only", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()
        self.model = json.loads(self.get("/api/state"))["models"][0]["name"]

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=300) as answer:
            return answer.read()

    def post(self, path, body):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read()

    def read(self, words, changes=()):
        return json.loads(self.post("/api/read", {"model": self.model, "text": words, "changes": list(changes)}))


def interactions(server, reading, words):
    """(name, kind, action): in the order in which somebody would look at them."""
    about = f"/api/readings/{reading['id']}"
    site = reading["sites"][len(reading["sites"]) // 2]["name"]
    last = len(reading["source"]) - 1
    start = max(0, last - 15)

    def get(what, **question):
        return lambda: server.get(f"{about}/{what}?{urllib.parse.urlencode(question)}")

    yield "map of a head", "computed", get("tile", site=site, head=0, zoom=0, x=0, y=0)
    yield "thumbnails of a layer", "computed", get("thumbnails", site=site, side=64)
    yield "why: one token", "one layer", get("vectors", site=site, head=0, query=last, keys="0,1")
    yield "every layer's answer, 16 positions", "unembedding", get("lens", **{"from": start, "to": last + 1})
    yield "distribution at a position", "unembedding", get("next", position=last // 2)
    yield "a head switched off", "pass", lambda: server.read(words, [f"zero:{site}:0"])
    yield "the same again", "cached", lambda: server.read(words, [f"zero:{site}:0"])
    yield "a score split into parts", "pass", get("parts", site=site, head=0, query=last, key=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 512])
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    server = Server(arguments.program, arguments.model)
    try:
        print("| tokens | interaction | what it needs | median | worst |\n|---|---|---|---|---|")
        for length in arguments.lengths:
            times = {}
            for number in range(arguments.repeat + 1):
                words = text(length - 2, number)
                began = time.perf_counter()
                reading = server.read(words)
                measured = [("a text read", "pass", time.perf_counter() - began)]
                for name, kind, action in interactions(server, reading, words):
                    began = time.perf_counter()
                    try:
                        action()
                    except urllib.error.HTTPError as problem:
                        # Not every model has every view.
                        problem.read()
                        continue
                    measured.append((name, kind, time.perf_counter() - began))
                # The first text also opens the model and warms caches.
                for name, kind, seconds in measured if number else []:
                    times.setdefault((name, kind), []).append(seconds)
            for (name, kind), seconds in times.items():
                median, worst = statistics.median(seconds), max(seconds)
                print(f"| {len(reading['source'])} | {name} | {kind} | {median * 1000:.0f} ms | {worst * 1000:.0f} ms |", flush=True)
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    main()
