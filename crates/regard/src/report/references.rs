//! What the article refers to.

/// Authors and year, title, where it was published.
pub const REFERENCES: &[(&str, &str, &str)] = &[
    ("Abnar, S. & Zuidema, W. (2020)", "Quantifying attention flow in transformers", "ACL"),
    (
        "Bahdanau, D., Cho, K. & Bengio, Y. (2014)",
        "Neural machine translation by jointly learning to align and translate",
        "ICLR 2015",
    ),
    (
        "Beltagy, I., Peters, M. & Cohan, A. (2020)",
        "Longformer: the long-document transformer",
        "arXiv:2004.05150",
    ),
    ("Clark, K., Khandelwal, U., Levy, O. & Manning, C. (2019)", "What does BERT look at?", "BlackboxNLP"),
    (
        "Dao, T. et al. (2022)",
        "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
        "NeurIPS",
    ),
    ("Devlin, J. et al. (2018)", "BERT: pre-training of deep bidirectional transformers", "NAACL 2019"),
    ("Gu, X. et al. (2024)", "When attention sink emerges in language models", "arXiv:2410.10781"),
    ("Hendrycks, D. & Gimpel, K. (2016)", "Gaussian error linear units", "arXiv:1606.08415"),
    ("Hoffmann, J. et al. (2022)", "Training compute-optimal large language models", "arXiv:2203.15556"),
    ("Jain, S. & Wallace, B. (2019)", "Attention is not explanation", "NAACL"),
    ("Kaplan, J. et al. (2020)", "Scaling laws for neural language models", "arXiv:2001.08361"),
    (
        "Katharopoulos, A. et al. (2020)",
        "Transformers are RNNs: fast autoregressive transformers with linear attention",
        "ICML",
    ),
    (
        "Kobayashi, G. et al. (2020)",
        "Attention is not only a weight: analyzing transformers with vector norms",
        "EMNLP",
    ),
    ("Maas, A. et al. (2011)", "Learning word vectors for sentiment analysis", "ACL"),
    ("Michel, P., Levy, O. & Neubig, G. (2019)", "Are sixteen heads really better than one?", "NeurIPS"),
    (
        "Press, O., Smith, N. & Lewis, M. (2021)",
        "Train short, test long: attention with linear biases",
        "ICLR 2022",
    ),
    ("Radford, A. et al. (2019)", "Language models are unsupervised multitask learners", "OpenAI"),
    (
        "Raffel, C. et al. (2019)",
        "Exploring the limits of transfer learning with a unified text-to-text transformer",
        "JMLR 2020",
    ),
    (
        "Su, J. et al. (2021)",
        "RoFormer: enhanced transformer with rotary position embedding",
        "arXiv:2104.09864",
    ),
    ("Vaswani, A. et al. (2017)", "Attention is all you need", "NeurIPS"),
    ("Xiong, R. et al. (2020)", "On layer normalization in the transformer architecture", "ICML"),
    ("Zaheer, M. et al. (2020)", "Big Bird: transformers for longer sequences", "NeurIPS"),
];
