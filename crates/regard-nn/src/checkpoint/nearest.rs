//! The supported model type that is most like another one.

use super::families;
use serde_json::{Map, Value};

/// Types whose names agree in fewer letters are not alike for that.
const LEAST: usize = 3;

/// The type whose name agrees with another's for longest; if none does, that of the same task.
pub(super) fn nearest(kind: &str, config: &Map<String, Value>) -> &'static str {
    let agree = |known: &str| kind.bytes().zip(known.bytes()).take_while(|(a, b)| a == b).count();
    // Of equally like ones the shortest is the plainest.
    let best = families().max_by_key(|known| (agree(known), std::cmp::Reverse(known.len())));
    if let Some(best) = best.filter(|best| agree(best) >= LEAST) {
        return best;
    }
    let class = config.get("architectures").and_then(|all| all.get(0)?.as_str()).unwrap_or_default();
    let tasks = [
        ("ImageClassification", "vit"),
        ("Vision", "vit"),
        ("ConditionalGeneration", "bart"),
        ("Seq2SeqLM", "bart"),
        ("MaskedLM", "bert"),
        ("PreTraining", "bert"),
        ("TokenClassification", "bert"),
        ("QuestionAnswering", "bert"),
    ];
    tasks.iter().find(|(task, _)| class.contains(task)).map_or("llama", |(_, nearest)| nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_count_before_tasks() {
        let near = |kind: &str, class: &str| {
            let config = json!({"architectures": [class]});
            nearest(kind, config.as_object().unwrap())
        };
        assert_eq!(near("qwen2_moe", ""), "qwen2");
        assert_eq!(near("gemma3", ""), "gemma3_text");
        assert_eq!(near("llama4_text", ""), "llama");
        assert_eq!(near("phi4", "Phi4ForCausalLM"), "phi");
        assert_eq!(near("clip", "CLIPModel"), "clip_text_model");
        assert_eq!(near("swin", "SwinForImageClassification"), "vit");
        assert_eq!(near("funnel", "FunnelForMaskedLM"), "bert");
        assert_eq!(near("pegasus", "PegasusForConditionalGeneration"), "bart");
        assert_eq!(near("", ""), "llama");
    }
}
