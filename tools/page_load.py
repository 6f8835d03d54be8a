#!/usr/bin/env python3
"""Many clients at once against `regard serve` on this machine: what they are told, and what memory is left in use.

    tools/page_load.py target/release/regard MODEL --clients 200 --seconds 60

Starts the server on a port of its own, lets each client read texts and look at maps as a page does, and prints a table
for records/page.md. Only loopback is ever asked, and it stops by itself.
"""

import argparse
import collections
import http.client
import json
import random
import subprocess
import threading
import time

# Idle threads of the server end after ten seconds.
REST = 12
WORDS = "the old man walked home because he was tired and a dog sat by the sea".split()


def resident(pid):
    """The memory of a process, in MB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


class Client(threading.Thread):
    def __init__(self, port, model, until, seed):
        super().__init__()
        self.port, self.model, self.until = port, model, until
        self.random = random.Random(seed)
        self.seen = collections.Counter()
        self.times = []

    def ask(self, method, path, body=None):
        began = time.monotonic()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
        except (OSError, http.client.HTTPException) as problem:
            self.seen[type(problem).__name__] += 1
            return None
        self.seen[answer.status] += 1
        self.times.append(time.monotonic() - began)
        return content if answer.status == 200 else None

    def run(self):
        while time.monotonic() < self.until:
            text = " ".join(self.random.choices(WORDS, k=self.random.randint(5, 60)))
            told = self.ask("POST", "/api/read", {"model": self.model, "text": text})
            if told is None:
                continue
            reading = json.loads(told)
            site = self.random.choice(reading["sites"])["name"]
            place = f"/api/readings/{reading['id']}"
            self.ask("GET", f"{place}/thumbnails?site={site}")
            self.ask("GET", f"{place}/tile?site={site}&head=0&zoom=0&x=0&y=0")
            self.ask("GET", f"{place}/measures?site={site}")
            self.ask("GET", f"{place}/vectors?site={site}&head=0&query=1&keys=0,1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=90, help="seconds of 16 clients before memory is looked at")
    arguments = parser.parse_args()
    clients, seconds = min(arguments.clients, 1000), min(arguments.seconds, 600)
    command = [arguments.program, "serve", arguments.model, "--only", "--port", "0", "--memory", "256"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
        # The first readings open the model and fill the store; the allocator's holes fill up too.
        warm = [Client(port, arguments.model, time.monotonic() + min(arguments.warm, 600), seed) for seed in range(16)]
        for client in warm:
            client.start()
        for client in warm:
            client.join()
        time.sleep(REST)
        before = resident(server.pid)
        until = time.monotonic() + seconds
        crowd = [Client(port, arguments.model, until, 1000 + seed) for seed in range(clients)]
        for client in crowd:
            client.start()
        most = before
        while any(client.is_alive() for client in crowd):
            most = max(most, resident(server.pid))
            time.sleep(0.2)
        time.sleep(REST)
        after = resident(server.pid)
        seen = sum((client.seen for client in crowd), collections.Counter())
        times = sorted(t for client in crowd for t in client.times)
        at = lambda share: times[int(share * (len(times) - 1))]
        print(f"{clients} clients for {seconds:.0f} s: {sum(seen.values())} requests")
        print("| answered | busy | anything else |\n|---|---|---|")
        print(f"| {seen[200]} | {seen[503]} | {sum(n for status, n in seen.items() if status not in (200, 503))} |")
        print(f"waiting: median {at(0.5):.2f} s, 95 % {at(0.95):.2f} s, most {at(1.0):.2f} s")
        print(f"memory: {before:.0f} MB before, {most:.0f} MB at most, {after:.0f} MB after")
        if set(seen) - {200, 503}:
            print("other answers:", dict(seen))
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
