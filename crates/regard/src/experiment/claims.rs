//! Every claim that the laboratory tests, by the number that its tables and files use.

/// A statement that can be wrong.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its number, such as "D3".
    pub id: &'static str,
    /// What it says.
    pub statement: &'static str,
}

impl Claim {
    /// Whether it is a claim about attention. D5 is about the files that an experiment leaves: it is checked, but not counted.
    pub fn is_counted(&self) -> bool {
        self.id != "D5"
    }
}

/// The project reports whose statements the claims are, by the letter of their numbers, A to E. They say what many others do.
pub const SOURCES: [&str; 5] = [
    "From Words to Attention (project report)",
    "Attention Is (Almost) All You Need (project report)",
    "Attention Is All You Need (Even on CPU) (project report)",
    "Scaled Dot-Product Attention From Scratch (project report)",
    "Transformer Architecture from Scratch (project report)",
];

macro_rules! claims {
    ($($id:literal: $statement:literal,)*) => {
        /// All of them, in order.
        pub const CLAIMS: &[Claim] = &[$(Claim { id: $id, statement: $statement }),*];
    };
}

claims! {
    "A1": "A vocabulary of some 15,000 words covers the text; `<UNK>` and `<PAD>` take care of the rest.",
    "A2": "Word vectors trained on sentiment alone lie along one axis: PC1 separates positive from negative words.",
    "A3": "Attention with random, untrained projections is near uniform.",
    "A4": "A larger d_k makes untrained attention sharper, even with the scale 1/√d_k.",
    "A5": "Heads with random projections show visibly different patterns on one sentence.",
    "A6": "Pre-trained vectors, trained projections, positions, residuals and more data each make it better.",
    "A7": "Several heads do better than one.",
    "B1": "One head can tell from the context whether a masked word is a content word or a function word.",
    "B2": "Training turns attention that sits on arbitrary single tokens into smoother, more distributed weights.",
    "B3": "After training, function words attend more diffusely than content words do.",
    "B4": "After training, attention links words that belong together in the sentence.",
    "B5": "Heads specialise when there are several.",
    "B6": "The patterns come from training: each of them grows with its steps.",
    "B7": "Semantically related words attend to each other more strongly.",
    "C1": "Max pool < additive attention < multi-head self-attention, on top of the same BiLSTM.",
    "C2": "Additive attention rests on sentiment words and passes over words such as “the” and “is”.",
    "C3": "Self-attention captures negation such as “not good”.",
    "C4": "Without attention, accuracy falls with length; with attention it falls less.",
    "C5": "Heat maps over the words, beside right and wrong predictions, show what these rest on.",
    "C6": "Attention, not scale, is what helps.",
    "C7": "Attention makes training more stable: results vary less from seed to seed.",
    "C8": "Parallel heads on a BiLSTM learn syntax, sentiment and emphasis.",
    "D1": "Attention written from scratch equals the framework's to rounding.",
    "D2": "Masked positions get exactly zero weight.",
    "D3": "Without the scale attention sharpens as d_k grows; with it, it does not.",
    "D4": "Without the scale the gradients of Q and K vanish as d_k grows.",
    "D5": "The sweep leaves its tables and pictures as files.",
    "D6": "Subtracting the row's maximum keeps the softmax finite.",
    "E1": "Attention is a soft dictionary lookup.",
    "E2": "Heads specialise without supervision: previous token, delimiter, subject and verb, modifier and noun, long range.",
    "E3": "Rotary, sinusoidal and learned positions differ little at the trained length, and much beyond it.",
    "E4": "Loss falls as a power of the number of parameters, with exponent −0.35.",
    "E5": "Pre-norm trains more stably, and deeper, than post-norm.",
    "E6": "GELU beats ReLU.",
    "E7": "Removing a head hurts specific abilities; heads are not redundant; they form groups.",
    "E8": "Attention costs O(n²·d) time and O(n²) memory, feed-forward O(n·d²); tiled attention's memory is O(n).",
    "E9": "GPT is for the next word, BERT for the masked word, T5 for sequence to sequence.",
    "E11": "Self-attention without positions does not know the order of its words; masks and positions tell it.",
    "E12": "GELU has smoother gradients than ReLU, and is the mean of a random gate.",
    "E13": "Attention's memory is O(n²), with heads O(n²·h); feed-forward's is O(n·d).",
    "E14": "Pre-norm has the better gradient flow.",
    "E10": "Tiled, sparse and linear attention, checkpointing, vision, cross-attention and rollout all work, at a cost that can be measured.",
}

/// A claim by its number.
pub fn claim(id: &str) -> Option<&'static Claim> {
    CLAIMS.iter().find(|claim| claim.id == id)
}
