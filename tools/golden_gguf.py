#!/usr/bin/env python3
"""Makes the golden files of GGUF's tests: crates/regard/tests/lab/golden/gguf/.

    golden_gguf.py             writes them
    golden_gguf.py --check     compares them with what these versions of the packages make
    golden_gguf.py --open DIR  opens a folder that `regard import gguf` wrote with transformers and prints its last logits

Needs the Python packages gguf, transformers, torch, tokenizers and sentencepiece. Each file is a small random model with a small
vocabulary, written by the package gguf. expected.json has, for each: the SHA-256 of every tensor's values as that package dequantises
them, the logits of transformers with these weights, and the ids of some texts from sentencepiece or tokenizers.
"""

import argparse
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path

import gguf
import numpy
import sentencepiece
import tokenizers
import torch
import transformers

FOLDER = Path(__file__).resolve().parents[1] / "crates/regard/tests/lab/golden/gguf"
TYPES = gguf.GGMLQuantizationType
TEXTS = [
    "The cat sat on the mat.", "", " two  spaces ", "naïve café\n\nnew lines", "3.14159 and 1000000",
    "I'LL don't we've", "日本 😀", "<s> </s> <|end|>", "\ttab  ",
]
CORPUS = ["The cat sat on the mat and the dog sat on the log.", "I don't think we've seen the naïve café in 1999, 2000 or 2001.",
          "New lines\n\nand  spaces   of several lengths, then the end of the text."] * 4

# Sizes: a row of 256 values for types with blocks of 256; else as small as can be.
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
         "num_hidden_layers": 2, "max_position_embeddings": 64}


def models():
    """Name, architecture, configuration, kind of vocabulary, types of matrices (one after the other)."""
    wide = {**SMALL, "hidden_size": 256, "intermediate_size": 32, "num_hidden_layers": 1, "rms_norm_eps": 1e-5}
    yield "llama", "llama", transformers.LlamaConfig(**wide), "spm", [TYPES.Q4_K, TYPES.Q6_K, TYPES.Q4_K, TYPES.Q8_0, TYPES.Q4_0]
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192, "rope_theta": 500000.0}
    sizes = {**SMALL, "attention_bias": True, "rope_parameters": scaling, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
             "tie_word_embeddings": True, "num_hidden_layers": 1}
    yield "llama3", "llama", transformers.LlamaConfig(**sizes), "llama-bpe", [TYPES.F32]
    yield "qwen2", "qwen2", transformers.Qwen2Config(**{k: v for k, v in SMALL.items() if k != "head_dim"}, rms_norm_eps=1e-6), "qwen2", [TYPES.F16]
    sizes = {**SMALL, "tie_word_embeddings": True, "rope_theta": 1e6, "rms_norm_eps": 1e-6}
    yield "qwen3", "qwen3", transformers.Qwen3Config(**sizes), "gpt-2", [TYPES.BF16]
    yield "gemma", "gemma", transformers.GemmaConfig(**SMALL, hidden_activation="gelu_pytorch_tanh"), "spm-bare", [TYPES.Q8_0]
    sizes = {**SMALL, "sliding_window": 4, "query_pre_attn_scalar": 32, "hidden_activation": "gelu_pytorch_tanh"}
    yield "gemma2", "gemma2", transformers.Gemma2Config(**sizes), "spm-bare", [TYPES.Q4_0]
    sizes = {**sizes, "num_hidden_layers": 6, "head_dim": 16, "query_pre_attn_scalar": 16, "intermediate_size": 32}
    yield "gemma3", "gemma3", transformers.Gemma3TextConfig(**sizes), "spm-bare", [TYPES.F16]


class Pieces:
    """A vocabulary, and what encodes with it."""

    def __init__(self, kind):
        self.kind = kind
        self.pre = None
        if kind.startswith("spm"):
            self.train_pieces(prefix=kind == "spm")
        else:
            self.train_pairs(kind)

    def train_pieces(self, prefix):
        """SentencePiece's byte-pair encoding with bytes for unknown characters."""
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=out, model_type="bpe", vocab_size=320, byte_fallback=True,
            add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity",
            user_defined_symbols=["<|end|>"], hard_vocab_limit=False, minloglevel=2, character_coverage=1.0)
        model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        count = model.get_piece_size()
        self.tokens = [model.id_to_piece(i) for i in range(count)]
        self.scores = [model.get_score(i) for i in range(count)]
        kind = gguf.TokenType
        special = [(model.is_unknown, kind.UNKNOWN), (model.is_control, kind.CONTROL), (model.is_unused, kind.UNUSED),
                   (model.is_byte, kind.BYTE)]
        self.types = [next((t for test, t in special if test(i)), kind.NORMAL) for i in range(count)]
        self.types[self.tokens.index("<|end|>")] = kind.USER_DEFINED
        self.merges, self.begin, self.end = None, model.bos_id(), model.eos_id()
        # Literal control tokens are no tokens to sentencepiece, but they are to Hugging Face.
        self.encode = lambda text: None if "<s>" in text else [self.begin, *model.encode(text)]

    def train_pairs(self, kind):
        """Byte-level byte-pair encoding; words are cut as the named models do it."""
        self.pre = kind
        words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=kind == "llama-bpe"))
        level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt-2")
        if kind == "gpt-2":
            tokenizer.pre_tokenizer = level
        else:
            pattern = tokenizers.Regex(words % ("{1,3}" if kind == "llama-bpe" else ""))
            split = tokenizers.pre_tokenizers.Split(pattern, "isolated")
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, level])
        if kind == "qwen2":
            tokenizer.normalizer = tokenizers.normalizers.NFC()
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=310, special_tokens=["<s>", "</s>", "<|end|>"], show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
        tokenizer.train_from_iterator(CORPUS, trainer)
        content = json.loads(tokenizer.to_str())["model"]
        self.tokens = [None] * tokenizer.get_vocab_size()
        for token, i in content["vocab"].items():
            self.tokens[i] = token
        self.merges = [" ".join(pair) for pair in content["merges"]]
        self.scores = None
        self.types = [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.USER_DEFINED] + [gguf.TokenType.NORMAL] * (len(self.tokens) - 3)
        self.begin, self.end = 0, 1
        first = [self.begin] if kind == "llama-bpe" else []
        self.encode = lambda text: first + tokenizer.encode(text, add_special_tokens=False).ids

    def write(self, writer):
        """As llama.cpp's converter writes it."""
        writer.add_tokenizer_model("llama" if self.scores else "gpt2")
        if self.pre:
            writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.scores:
            writer.add_token_scores(self.scores)
            writer.add_add_space_prefix(self.kind == "spm")
            writer.add_unk_token_id(0)
        else:
            writer.add_token_merges(self.merges)
        writer.add_bos_token_id(self.begin)
        writer.add_eos_token_id(self.end)
        writer.add_add_bos_token(self.kind.startswith("spm") or self.kind == "llama-bpe")
        writer.add_chat_template("{{ messages[0].content }}")


def permute(weight, heads):
    """Llama's rows as GGUF has them: rotary pairs side by side."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def unpermute(weight, heads):
    """And back."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def blocks(random, shape, kind):
    """Random blocks of a type that the package reads but does not write."""
    _, size = gguf.GGML_QUANT_SIZES[kind]
    count = int(numpy.prod(shape)) // 256
    data = random.randint(0, 256, size=(count, size)).astype(numpy.uint8)
    scale = lambda low, high: random.uniform(low, high, size=(count, 1)).astype(numpy.float16).view(numpy.uint8)
    if kind == TYPES.Q4_K:
        data[:, 0:2], data[:, 2:4] = scale(1e-5, 1e-4), scale(1e-4, 7e-4)
    else:
        data[:, 208:210] = scale(-4e-5, 4e-5)
    return data.reshape(*shape[:-1], -1)


def stored(random, name, value, config, arch, kinds):
    """What the file holds for a parameter, its type, and the parameter with what is left of it."""
    norm = name.endswith("norm.weight")
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    heads = next((count for part, count in heads.items() if part in name), None) if arch == "llama" else None
    value = permute(value, heads) if heads else value
    value = value + 1 if arch.startswith("gemma") and norm else value
    kind = TYPES.F32 if value.ndim == 1 else kinds[0]
    if value.ndim > 1:
        kinds.append(kinds.pop(0))
        if value.shape[-1] % 256 and kind in (TYPES.Q4_K, TYPES.Q6_K):
            kind = TYPES.Q8_0
    if kind in (TYPES.Q4_K, TYPES.Q6_K):
        data = blocks(random, value.shape, kind)
    else:
        data = gguf.quants.quantize(value.astype(numpy.float32), kind)
    back = gguf.quants.dequantize(data, kind).reshape(value.shape).astype(numpy.float32)
    parameter = back - numpy.float32(1) if arch.startswith("gemma") and norm else back
    return data, kind, back, unpermute(parameter, heads) if heads else parameter


def make(name, arch, config, vocabulary, kinds, folder):
    """One file, and what is expected of it."""
    random = numpy.random.RandomState(len(name) * 7 + len(arch))
    pieces = Pieces(vocabulary)
    config.vocab_size = len(pieces.tokens)
    config.pad_token_id = config.bos_token_id = config.eos_token_id = None
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    writer = gguf.GGUFWriter(folder / f"{name}.gguf", arch)
    settings(writer, config, arch)
    pieces.write(writer)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), config.num_hidden_layers)
    hashes = {}
    with torch.no_grad():
        for theirs, parameter in model.named_parameters():
            value = random.normal(0, 0.3 if parameter.dim() == 1 else 0.1, size=parameter.shape).astype(numpy.float32)
            if parameter.dim() == 1 and "norm" in theirs and not arch.startswith("gemma"):
                value += 1
            data, kind, back, value = stored(random, theirs, value, config, arch, kinds)
            ours = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(ours, data, raw_dtype=kind)
            hashes[ours] = [kind.name, hashlib.sha256(back.tobytes()).hexdigest()]
            parameter.copy_(torch.from_numpy(numpy.ascontiguousarray(value)))
        if name == "llama3":
            frequencies = 1 / (500000.0 ** (numpy.arange(0, 32, 2) / 32))
            turns = 8192 * frequencies / (2 * numpy.pi)
            smooth = numpy.clip((turns - 1) / 3, 0, 1)
            writer.add_tensor("rope_freqs.weight", (1 / ((1 - smooth) / 8 + smooth)).astype(numpy.float32))
        ids = [5, 17, 260, 3, 40, 261, 99]
        logits = model(torch.tensor([ids])).logits[0]
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    texts = [[text, pieces.encode(text)] for text in TEXTS if pieces.encode(text) is not None]
    last = [float(f"{value:.7g}") for value in logits[-1].tolist()]
    return {"ids": ids, "logits": last, "tensors": hashes, "texts": texts}


def settings(writer, config, arch):
    """The model's sizes."""
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head)
    writer.add_value_length(head)
    rope = config.rope_parameters
    writer.add_rope_freq_base((rope.get("full_attention") or rope)["rope_theta"])
    if arch == "llama":
        writer.add_rope_dimension_count(head)
    if arch in ("gemma2", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def make_all(folder):
    """All files, and expected.json."""
    expected = {}
    for name, *rest in models():
        expected[name] = make(name, *rest, folder)
    lines = [f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in expected.items()]
    (folder / "expected.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def same_numbers(one, other):
    """Equal, but for what another processor rounds differently in logits."""
    one, other = ({name: {**case, "logits": None} for name, case in json.loads(text).items()} for text in (one, other))
    return one == other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--open", metavar="DIR", help="open a folder with transformers")
    arguments = parser.parse_args()
    if arguments.open:
        model = transformers.AutoModelForCausalLM.from_pretrained(arguments.open, dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.open)
        expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))[Path(arguments.open).name]
        with torch.no_grad():
            logits = model(torch.tensor([expected["ids"]])).logits[0][-1]
        wanted = torch.tensor(expected["logits"])
        print(f"largest difference {((logits - wanted).abs().max() / wanted.abs().max()).item():.1e}, "
              f"texts {all(tokenizer(text)['input_ids'] == ids for text, ids in expected['texts'])}")
    elif arguments.check:
        with tempfile.TemporaryDirectory() as folder:
            make_all(Path(folder))
            for file in sorted(Path(folder).iterdir()):
                old, new = (FOLDER / file.name).read_bytes(), file.read_bytes()
                if old != new and not (file.suffix == ".json" and same_numbers(old, new)):
                    sys.exit(f"{file.name} differs")
        print("all as before")
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        make_all(FOLDER)
        for file in sorted(FOLDER.iterdir()):
            print(f"{file.name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
