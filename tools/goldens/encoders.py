"""Encoders: models that read in both directions."""

from goldens.case import build, classes, classified, encoder_inputs, masked, record, run
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
)


def bert_config(**settings):
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 35}
    return BertConfig(**{**sizes, "vocab_size": 47, "max_position_embeddings": 13, **settings})


def bert_mlm(case):
    model = build(case, BertForMaskedLM, bert_config())
    masked(case, model, [6, 9, 4], with_types=True)


def bert_classifier(case):
    config = bert_config(**classes(3), type_vocab_size=3, num_attention_heads=6)
    model = build(case, BertForSequenceClassification, config)
    inputs = classified(case, model, [7, 5, 8], with_types=True)
    case.store("pooled", run(model.bert, inputs).pooler_output)


def bert_base(case):
    """No head: the loss is Σ pooled·upstream + Σ last states·upstream, at real positions."""
    config = bert_config(hidden_size=15, intermediate_size=22, hidden_act="gelu_new", layer_norm_eps=1e-5)
    model = build(case, BertModel, config)
    inputs = encoder_inputs(case, config, [5, 8], with_types=True)
    outputs = run(model, inputs)
    of_pooled = case.normal(*outputs.pooler_output.shape)
    of_states = case.normal(*outputs.last_hidden_state.shape) * inputs["mask"][:, :, None]
    loss = (outputs.pooler_output * of_pooled).sum() + (outputs.last_hidden_state * of_states).sum()
    record(case, model, inputs, outputs, loss)
    case.store("pooled", outputs.pooler_output)
    case.store("inputs/pooled_upstream", of_pooled)
    case.store("inputs/hidden_upstream", of_states)


def roberta_config(**settings):
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    sizes |= {"vocab_size": 43, "max_position_embeddings": 12, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    return RobertaConfig(**sizes, **settings)


def roberta(case):
    masked(case, build(case, RobertaForMaskedLM, roberta_config()), [5, 9, 7])


def roberta_classifier(case):
    config = roberta_config(**classes(4))
    classified(case, build(case, RobertaForSequenceClassification, config), [8, 3, 6])


def distilbert_config(**settings):
    sizes = {"dim": 18, "n_layers": 2, "n_heads": 3, "hidden_dim": 29, "vocab_size": 41}
    return DistilBertConfig(**sizes, max_position_embeddings=11, **settings)


def distilbert(case):
    masked(case, build(case, DistilBertForMaskedLM, distilbert_config()), [8, 5, 6])


def distilbert_classifier(case):
    config = distilbert_config(**classes(3))
    classified(case, build(case, DistilBertForSequenceClassification, config), [4, 9, 6])


# What docs/fidelity.md calls each.
CASES = {
    bert_mlm: "BERT, masked words",
    bert_classifier: "BERT, classes",
    bert_base: "BERT without a head",
    roberta: "RoBERTa, masked words",
    roberta_classifier: "RoBERTa, classes",
    distilbert: "DistilBERT, masked words",
    distilbert_classifier: "DistilBERT, classes",
}
