"""Whatever a caller does: an answer or a regard.Error, and the interpreter goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard

TEXT = "the cat sat"
JUNK: list[Any] = [
    None, 3.5, float("nan"), float("inf"), -1, 10**30, True, "x", b"x", [], {}, (), object(), 1j, [[]], [None], lambda: 1,
    np.zeros((0,)), np.array(["a"]), np.array([float("nan")]), np.array(object()), np.zeros((2,) * 6),
]  # fmt: skip


def changed(gpt: regard.Model, intervention: Any) -> regard.Run:
    run: regard.Run = gpt.run(TEXT, interventions=[intervention])
    return run


def calls(gpt: regard.Model) -> dict[str, Callable[[Any], Any]]:
    """Every place where a caller gives something, by its name."""
    run, eye, small = gpt(TEXT), np.eye(2), {"d_model": 8, "n_layers": 1, "n_heads": 2, "context": 8}
    layer = regard.MultiHeadAttention(8, 2)
    tokenizer = gpt.tokenizer
    assert tokenizer is not None
    fit = {"steps": 1, "progress": False}
    return {
        "model": gpt,
        "model list": lambda x: gpt([x]),
        "second": lambda x: gpt(TEXT, x),
        "layer": run.attention,
        "head": lambda x: run.attention(0, x),
        "rows": lambda x: run.attention(0, 0, rows=x),
        "kind": lambda x: run.attention(0, 0, kind=x),
        "site": lambda x: run[x],
        "top": run.top,
        "position": lambda x: run.top(1, x),
        "lens": lambda x: regard.logit_lens(run, position=x),
        "plot": run.plot,
        "path": lambda x: run.plot(0, path=x),
        "show": run.show,
        "query": lambda x: run.show(query=x),
        "save": run.save,
        "interventions": lambda x: gpt.run(TEXT, interventions=x),
        "hook returns": lambda x: gpt.run(TEXT, hooks={"embeddings": lambda _, values: x}),
        "record": lambda x: gpt.run(TEXT, record=[x]),
        "ablate": lambda x: changed(gpt, regard.ablate(x, 0)),
        "ablate to": lambda x: changed(gpt, regard.ablate(0, 0, to=x)),
        "patch": lambda x: changed(gpt, regard.patch("embeddings", x)),
        "patch at": lambda x: changed(gpt, regard.patch("embeddings", np.zeros(16), positions=[x])),
        "steer": lambda x: changed(gpt, regard.steer("embeddings", np.zeros(16), scale=x)),
        "block": lambda x: changed(gpt, regard.block(0, x, 0)),
        "gradient": lambda x: gpt.gradient(x, wrt=["embeddings"]),
        "gradient of": lambda x: gpt.gradient(TEXT, of=x, wrt=["embeddings"]),
        "gradient wrt": lambda x: gpt.gradient(TEXT, wrt=[x]),
        "prompt": lambda x: str(gpt.generate(x, tokens=1)),
        "tokens": lambda x: next(iter(gpt.generate("the", tokens=x)), None),
        "temperature": lambda x: str(gpt.generate("the", tokens=1, temperature=x)),
        "top_p": lambda x: str(gpt.generate("the", tokens=1, top_p=x)),
        "seed": lambda x: str(gpt.generate("the", tokens=1, seed=x)),
        "heads": regard.heads,
        "heads texts": lambda x: regard.heads(gpt, x),
        "heads batch": lambda x: regard.heads(gpt, [TEXT], batch=x),
        "ablation": lambda x: regard.ablation(gpt, [TEXT], labels=x),
        "influence": lambda x: regard.influence(gpt, x),
        "scaled_dot_product": lambda x: regard.attention.scaled_dot_product(x, x, x),
        "mask": lambda x: regard.attention.scaled_dot_product(eye, eye, eye, x),
        "scale": lambda x: regard.attention.scaled_dot_product(eye, eye, eye, scale=x),
        "multi-head": layer,
        "multi-head width": lambda x: regard.MultiHeadAttention(x, 2),
        "multi-head gradient": lambda x: layer.gradient(np.ones((2, 8)), x),
        "sinusoidal": lambda x: regard.positions.sinusoidal(x, 4),
        "sinusoidal width": lambda x: regard.positions.sinusoidal(4, x),
        "rotary": lambda x: regard.positions.rotary(np.ones((2, 1, 4)), x),
        "alibi": lambda x: regard.positions.alibi(x, 3),
        "buckets": lambda x: regard.positions.relative_bucket(3, x),
        "causal": regard.masks.causal,
        "window": lambda x: regard.masks.window(3, x),
        "padding": regard.masks.padding,
        "GPT": lambda x: regard.GPT(x, **small),
        "GPT tokenizer": lambda x: regard.GPT(tokenizer=x),
        "GPT device": lambda x: regard.GPT(11, **small, device=x),
        "GPT precision": lambda x: regard.GPT(11, **small, precision=x),
        "GPT positions": lambda x: regard.GPT(11, **small, positions=x),
        "T5": lambda x: regard.T5(11, d_model=8, n_layers=1, n_heads=2, d_head=x),
        "ViT": lambda x: regard.ViT(8, x, d_model=8, n_layers=1, n_heads=2),
        "Sentiment": lambda x: regard.Sentiment(11, x),
        "load": regard.load,
        "collect": lambda x: regard.collect(gpt, x, ["embeddings"]),
        "collect sites": lambda x: regard.collect(gpt, [TEXT], x),
        "view": lambda x: regard.view(x, ["a"]),
        "view tokens": lambda x: regard.view(np.ones((1, 1, 1, 1)), x),
        "words": regard.Tokenizer.words,
        "encode": tokenizer.encode,
        "decode": tokenizer.decode,
        "fit": lambda x: gpt.fit(x, **fit),
        "fit targets": lambda x: gpt.fit([TEXT], x, **fit),
        "fit validation": lambda x: gpt.fit([TEXT], validation=x, **fit),
        "fit lr": lambda x: gpt.fit([TEXT], lr=x, **fit),
        "with_parameters": lambda x: gpt.with_parameters({next(iter(gpt.parameters)): x}),
        "model save": gpt.save,
        "data": lambda x: regard.data.texts(limit=x),
        "Table": regard.Table,
        "heat_maps": lambda x: regard.heat_maps("title", [("", x)]),
        "line_chart": lambda x: regard.line_chart("title", {"a": x}, x="x", y="y"),
        "png": lambda x: regard.heat_maps("title", [("", eye)]).png(scale=x),
        "from_torch": regard.from_torch,
    }


def test_odd_arguments_are_errors_or_fine(tokenizer: regard.Tokenizer, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    gpt = regard.GPT(tokenizer=tokenizer, d_model=16, n_layers=2, n_heads=2, context=16)
    wrong: list[str] = []
    for name, call in calls(gpt).items():
        for junk in JUNK:
            try:
                call(junk)
            except regard.Error as error:
                if not str(error) or "\n" in str(error).strip() or "defect" in str(error):
                    wrong.append(f"{name}, {junk!r:.40}: not one sentence: {error}")
            except Exception as error:
                wrong.append(f"{name}, {junk!r:.40}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    assert gpt(TEXT).tokens == ["the", "cat", "sat"]


HUGE: dict[str, Callable[[], Any]] = {
    "GPT": lambda: regard.GPT(10**9, d_model=768 * 1000),
    "layers": lambda: regard.GPT(11, d_model=64, n_heads=1, n_layers=10**12),
    "multi-head": lambda: regard.MultiHeadAttention(10**7, 1),
    "mask": lambda: regard.masks.causal(10**7),
    "window": lambda: regard.masks.window(10**18, 3),
    "sinusoidal": lambda: regard.positions.sinusoidal(10**5, 10**9),
    "positions": lambda: regard.positions.sinusoidal(10**12, 4),
    "slopes": lambda: regard.positions.alibi_slopes(10**15),
    "weights": lambda: regard.attention.scaled_dot_product(*[np.ones((10**6, 1), dtype=np.float32)] * 3),
    "gradient": lambda: regard.attention.gradient(*[np.ones((10**6, 1), dtype=np.float32)] * 3),
    "picture": lambda: regard.heat_maps("title", [("", np.eye(2))]).png(scale=1e9),
    "texts": lambda: regard.data.texts(limit=10**15),
    "batch": lambda: regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8).fit(np.arange(99) % 11, batch=10**15, progress=False),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_does_not_fit_memory_is_an_error(name: str) -> None:
    with pytest.raises(regard.Error):
        HUGE[name]()


def test_arguments_that_do_not_exist_remain_type_errors(gpt: regard.Model) -> None:
    with pytest.raises(TypeError):
        gpt.run(TEXT, nonsense=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        regard.masks.causal()  # type: ignore[call-arg]


def test_what_a_hook_raises_is_raised(gpt: regard.Model) -> None:
    def fails(site: str, values: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        gpt.run(TEXT, hooks={"embeddings": fails})


def work_of_many_kinds(gpt: regard.Model) -> dict[str, Callable[[], Any]]:
    deep = regard.GPT(50, d_model=64, n_layers=24, n_heads=4, context=512)
    ids, texts = list(range(50)) * 8, [TEXT] * 60
    return {
        "pass": lambda: deep(ids),
        "site": lambda: deep(ids)["layers.20.residual.after"],
        "gradient": lambda: deep.gradient(ids, wrt=["embeddings"]),
        "generate": lambda: str(deep.generate(ids[:50], tokens=400, stop_at_end=False)),
        "heads": lambda: regard.heads(gpt, texts),
        "ablation": lambda: regard.ablation(gpt, texts),
        "influence": lambda: regard.influence(gpt, TEXT),
        "collect": lambda: regard.collect(gpt, texts, ["embeddings"], batch=1),
        "fit": lambda: gpt.fit(texts, steps=10**6, progress=False),
        "data": lambda: regard.data.texts(limit=20_000),
        "page": lambda: gpt(TEXT).show(),
    }


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_every_kind_of_work(tokenizer: regard.Tokenizer) -> None:
    gpt = regard.GPT(tokenizer=tokenizer, d_model=16, n_layers=2, n_heads=2, context=16)
    for name, work in work_of_many_kinds(gpt).items():
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        try:
            with pytest.raises(KeyboardInterrupt):
                while time.monotonic() - started < 60:
                    work()
        finally:
            timer.join()
        assert time.monotonic() - started < 45, name
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert gpt(TEXT).tokens == ["the", "cat", "sat"]


def test_threads_share_one_model(tokenizer: regard.Tokenizer) -> None:
    gpt = regard.GPT(tokenizer=tokenizer, d_model=16, n_layers=2, n_heads=2, context=16)
    run, said = gpt(TEXT), gpt.generate("the", tokens=40, stop_at_end=False)
    failures: list[BaseException] = []

    def go(number: int) -> None:
        try:
            for _ in range(5):
                kinds: list[Callable[[], Any]] = [
                    lambda: gpt.fit([TEXT] * 4, steps=3, progress=False),
                    lambda: (run.logits, run["layers.1.self.weights"], run.attention(1)),
                    lambda: next(iter(said), None),
                    lambda: gpt.run(TEXT, hooks={"layers.*.self.heads": lambda _, values: values * 2}).logits,
                    lambda: regard.heads(gpt, [TEXT, "a dog saw the cat"]),
                    lambda: gpt.save("unused") if False else gpt.parameter(next(iter(gpt.parameters))),
                ]
                kinds[number % len(kinds)]()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=go, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not failures and not any(thread.is_alive() for thread in threads)


def alone(code: str, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    """Runs code in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds)


MODEL = "import regard, threading, time, os, sys; model = regard.GPT(50, d_model=32, n_layers=4, n_heads=4, context=256)\n"


def test_the_interpreter_ends_while_work_goes_on() -> None:
    code = MODEL + (
        "ids = list(range(50)) * 5\n"
        "def go():\n    while True: model(ids)\n"
        "def hook():\n    while True: model.run(ids[:9], hooks={'layers.*.self.heads': lambda s, v: v * 2})\n"
        "def fit(): model.fit(ids * 9, steps=10**9, progress=False)\n"
        "for work in (go, go, hook, fit): threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.7); print('end')"
    )
    for _ in range(3):
        done = alone(code)
        assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_forked_process_works() -> None:
    code = MODEL + (
        "before = model(list(range(200)) * 0 + [1, 2, 3] * 60).logits\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    again = model([1, 2, 3] * 60).logits\n"
        "    model.fit([1, 2, 3] * 60, steps=2, progress=False)\n"
        "    os._exit(0 if (again == before).all() else 9)\n"
        "_, status = os.waitpid(child, 0)\n"
        "assert (model([1, 2, 3] * 60).logits == before).all()\n"
        "sys.exit(os.waitstatus_to_exitcode(status))"
    )
    done = alone(code)
    assert done.returncode == 0, done.stderr


def test_objects_outlive_what_they_came_from() -> None:
    import gc

    run = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)([3, 1, 4])
    logits, weights = run.logits, run.attention(0, 0)
    copies = logits.copy(), weights.copy()
    del run
    gc.collect()
    [regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)([3, 1, 4]) for _ in range(20)]
    np.testing.assert_array_equal(logits, copies[0])
    np.testing.assert_array_equal(weights, copies[1])
    with pytest.raises(ValueError, match="read-only"):
        logits[0, 0] = 1.0
