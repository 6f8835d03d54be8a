"""Vision: models that read pictures."""

from goldens.case import build, classes, record_task
from transformers import ViTConfig, ViTForImageClassification


def vit(case):
    """Three patches high and two wide."""
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    image = {"image_size": [12, 8], "patch_size": 4, "num_channels": 3}
    config = ViTConfig(**sizes, **image, **classes(5))
    model = build(case, ViTForImageClassification, config)
    record_task(case, model, {"pixels": case.normal(3, 3, 12, 8), "labels": case.ids(5, 3)})


# What docs/fidelity.md calls each.
CASES = {
    vit: "ViT",
}
