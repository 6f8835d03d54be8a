//! Who may attend to whom: each pattern against its definition, and attention under it against the reference.

use crate::attention::inputs;
use crate::golden::agree;
use crate::numbers::gradients;
use regard_nn::attention::{How, Pattern, Rules, Scale, scaled_dot_product};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{BLOCK, Mask, Tensor};

/// (queries, keys), around the size of a block.
const LENGTHS: [(usize, usize); 10] =
    [(1, 1), (63, 63), (64, 64), (65, 65), (130, 130), (1, 130), (3, 64), (64, 65), (65, 130), (130, 129)];

/// A pattern and its definition: whether a query at a position may look at a key. Surplus queries stand before 0.
type Defined = (&'static str, Pattern, Box<dyn Fn(isize, isize) -> bool>);

fn window(before: usize, after: usize) -> Pattern {
    Pattern::Window { before, after }
}

fn patterns(queries: usize, keys: usize) -> Vec<Defined> {
    let near = |reach: isize| move |q: isize, k: isize| (q - k).abs() <= reach;
    let global =
        |places: &'static [isize]| move |q: isize, k: isize| places.contains(&q) || places.contains(&k);
    let key = Key::new(3);
    let dots = Mask::from_fn([queries, keys], |at| key.uniform(at[0] as u64, at[1] as u64) < 0.3);
    let explicit = {
        let dots = dots.clone();
        move |q: isize, k: isize| {
            dots.values()[(q + queries as isize - keys as isize) as usize * keys + k as usize]
        }
    };
    let all: Vec<Defined> = vec![
        ("full", Pattern::Full, Box::new(|_, _| true)),
        ("window", window(5, 2), Box::new(|q, k| k >= q - 5 && k <= q + 2)),
        ("oneself", window(0, 0), Box::new(|q, k| k == q)),
        ("wide window", window(usize::MAX, usize::MAX), Box::new(|_, _| true)),
        ("global", Pattern::Global(vec![0, 66, 999]), Box::new(global(&[0, 66, 999]))),
        ("strided", Pattern::Strided(7), Box::new(|q, k| (q - k) % 7 == 0)),
        ("far strides", Pattern::Strided(100), Box::new(|q, k| (q - k) % 100 == 0)),
        ("explicit", Pattern::Explicit(dots), Box::new(explicit)),
        (
            "longformer",
            Pattern::longformer(9, vec![1]),
            Box::new(move |q, k| near(9)(q, k) || global(&[1])(q, k)),
        ),
        (
            "window of strides",
            Pattern::All(vec![window(40, 40), Pattern::Strided(3)]),
            Box::new(move |q, k| near(40)(q, k) && (q - k) % 3 == 0),
        ),
        (
            "nested",
            Pattern::Any(vec![
                Pattern::All(vec![window(30, 0), Pattern::Strided(2)]),
                Pattern::Global(vec![2]),
            ]),
            Box::new(move |q, k| k <= q && near(30)(q, k) && (q - k) % 2 == 0 || global(&[2])(q, k)),
        ),
        ("nobody", Pattern::Any(vec![]), Box::new(|_, _| false)),
    ];
    all.into_iter()
        .flat_map(|(name, pattern, allows)| {
            let allows = std::rc::Rc::new(allows);
            let same = allows.clone();
            let causal: Defined =
                ("causal", pattern.clone().causal(), Box::new(move |q, k| k <= q && same(q, k)));
            [(name, pattern, Box::new(move |q, k| allows(q, k)) as Box<dyn Fn(isize, isize) -> bool>), causal]
        })
        .collect()
}

/// Attention under a pattern, in tiles and step by step, against the reference under a mask.
fn check(name: &str, pattern: &Pattern, mask: &Mask, (queries, keys): (usize, usize)) {
    let inputs = inputs([queries, keys, 2, 2]);
    let heads_first = |x: &Tensor| x.permute(&[0, 2, 1, 3]).unwrap();
    let [query, key, value] = inputs.all().map(heads_first);
    let (want, _) = scaled_dot_product(&query, &key, &value, Some(mask), Scale::InverseRoot).unwrap();
    let want = heads_first(&want);
    let slopes = gradients(&want, &inputs.all());
    let rules = Rules::new(pattern.clone(), queries, keys).unwrap();
    for got in inputs.both_ways(&How::default(), &rules) {
        agree(name, &got, &want, 2e-6);
        for (got, want) in gradients(&got, &inputs.all()).iter().zip(&slopes) {
            agree(name, got, want, 5e-6);
        }
    }
}

#[test]
fn every_pattern_is_its_definition_and_the_reference_under_its_mask() {
    for (queries, keys) in LENGTHS {
        for (name, pattern, allows) in patterns(queries, keys) {
            let position = |query: usize| query as isize + keys as isize - queries as isize;
            let mask = pattern.mask(queries, keys).unwrap();
            let want = Mask::from_fn([queries, keys], |at| allows(position(at[0]), at[1] as isize));
            assert_eq!(mask.values(), want.values(), "{name} for {queries} queries and {keys} keys");
            check(name, &pattern, &mask, (queries, keys));
        }
    }
}

#[test]
fn random_blocks_are_whole_blocks_drawn_for_each_block_of_positions() {
    let pattern = |seed| Pattern::RandomBlocks { count: 2, seed };
    let all = pattern(1).mask(400, 400).unwrap();
    for block in 0..7 {
        let first = &all.values()[block * BLOCK * 400..][..400];
        let drawn: Vec<bool> = first.chunks(BLOCK).map(|keys| keys[0]).collect();
        assert_eq!(drawn.iter().filter(|&&drawn| drawn).count(), 2, "two blocks of seven");
        for query in block * BLOCK..((block + 1) * BLOCK).min(400) {
            for key in 0..400 {
                assert_eq!(all.values()[query * 400 + key], drawn[key / BLOCK], "{query} {key}");
            }
        }
    }
    assert_ne!(all, pattern(2).mask(400, 400).unwrap(), "another seed draws others");
    for (queries, keys) in LENGTHS {
        for pattern in [pattern(1), pattern(1).causal(), Pattern::big_bird(4, vec![0], 1, 7).causal()] {
            check("random", &pattern, &pattern.mask(queries, keys).unwrap(), (queries, keys));
        }
    }
}

#[test]
fn fewer_queries_are_the_last_of_all() {
    for keys in [65, 130, 200] {
        for queries in [1, 3, 64, 65] {
            let mut all: Vec<(&str, Pattern)> =
                patterns(keys, keys).into_iter().map(|(name, pattern, _)| (name, pattern)).collect();
            all.retain(|(_, pattern)| !format!("{pattern:?}").contains("Explicit"));
            all.push(("random", Pattern::RandomBlocks { count: 1, seed: 4 }));
            all.push(("big bird", Pattern::big_bird(3, vec![0, 70], 1, 5).causal()));
            for (name, pattern) in all {
                let whole = pattern.mask(keys, keys).unwrap();
                let last = pattern.mask(queries, keys).unwrap();
                assert_eq!(
                    last.values(),
                    &whole.values()[(keys - queries) * keys..],
                    "{name}, {queries} of {keys}"
                );
            }
        }
    }
}

/// The pairs with the k highest scores of each query among those a mask allows: (batch, heads, queries, keys).
fn highest(k: usize, allowed: &Mask, (queries, keys): (usize, usize)) -> Mask {
    let inputs = inputs([queries, keys, 2, 2]);
    let (q, key_values) = (inputs.query.values(), inputs.key.values());
    Mask::from_fn([2, 2, queries, keys], |at| {
        let &[example, head, query, key] = at else { panic!() };
        let score = |key: usize| -> f32 {
            let q = &q[((example * queries + query) * 2 + head) * 4..][..4];
            let k = &key_values[((example * keys + key) * 2 + head) * 4..][..4];
            q.iter().zip(k).map(|(q, k)| q * k).sum()
        };
        let open = |key: &usize| allowed.values()[query * keys + key];
        let better = (0..keys).filter(open).filter(|&other| score(other) > score(key)).count();
        open(&key) && better < k
    })
}

#[test]
fn the_best_k_are_chosen_among_those_that_may_be_seen() {
    for (queries, keys) in [(1, 1), (5, 5), (65, 65), (3, 70)] {
        for k in [0, 1, 3, 200] {
            let all = Pattern::Full.mask(queries, keys).unwrap();
            check("top", &Pattern::TopK(k), &highest(k, &all, (queries, keys)), (queries, keys));
            let near = window(20, 0);
            let mask = highest(k, &near.mask(queries, keys).unwrap(), (queries, keys));
            // The order in which an intersection names its parts does not matter.
            for parts in [vec![near.clone(), Pattern::TopK(k)], vec![Pattern::TopK(k), near]] {
                check("top of a window", &Pattern::All(parts), &mask, (queries, keys));
            }
            let causal = Pattern::Causal.mask(queries, keys).unwrap();
            let top = highest(k, &causal, (queries, keys));
            check("causal top", &Pattern::TopK(k).causal(), &top, (queries, keys));
            let oneself = window(0, 0).mask(queries, keys).unwrap();
            let either = Mask::from_fn([2, 2, queries, keys], |at| {
                let pair = at[2] * keys + at[3];
                let place = (at[0] * 2 + at[1]) * queries * keys + pair;
                top.values()[place] || oneself.values()[pair]
            });
            let union = Pattern::Any(vec![Pattern::TopK(k), window(0, 0)]).causal();
            check("top or oneself", &union, &either, (queries, keys));
        }
    }
}

#[test]
fn a_mask_may_differ_between_examples_and_heads() {
    let key = Key::new(8);
    for (examples, heads) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let mask = Mask::from_fn([examples, heads, 65, 70], |at| {
            key.uniform((at[0] * 2 + at[1]) as u64, (at[2] * 70 + at[3]) as u64) < 0.4
        });
        check("explicit", &Pattern::Explicit(mask.clone()), &mask, (65, 70));
        let causal = Mask::from_fn([examples, heads, 65, 70], |at| {
            let place = ((at[0] * heads + at[1]) * 65 + at[2]) * 70 + at[3];
            at[3] <= at[2] + 5 && mask.values()[place]
        });
        check("causal", &Pattern::Explicit(mask).causal(), &causal, (65, 70));
    }
}

#[test]
fn what_a_pattern_leaves_out_costs_nothing() {
    let blocks = |pattern: &Pattern, length: usize| {
        pattern.compile(length, length).unwrap().blocks.expect("a pattern in blocks").blocks()
    };
    for pattern in [window(100, 100), Pattern::longformer(64, vec![0]), Pattern::big_bird(64, vec![0], 2, 1)]
    {
        let (short, long) = (blocks(&pattern, 64 * 50), blocks(&pattern, 64 * 100));
        assert!(long < 2 * short + 100 && long < 10_000 / 10, "{pattern:?}: {short} and {long} blocks");
    }
}

#[test]
fn patterns_that_make_no_sense_are_refused() {
    let mask = |shape: &[usize]| Mask::from_fn(shape, |_| true);
    let refused = |pattern: Pattern| {
        let error = Rules::new(pattern.clone(), 4, 6).err().or(pattern.mask(4, 6).err());
        error.unwrap_or_else(|| panic!("{pattern:?} was accepted")).to_string()
    };
    assert_eq!(refused(Pattern::Strided(0)), "pattern: a stride must be at least 1");
    for shape in [&[4, 5][..], &[6], &[], &[2, 4, 6], &[1, 1, 6, 4], &[1, 1, 1, 4, 6]] {
        let error = refused(Pattern::Explicit(mask(shape)));
        assert!(error.contains("4 queries and 6 keys"), "{error}");
    }
    // A mask for each example or head cannot be combined with what is the same for all.
    let by_head = Pattern::Explicit(mask(&[1, 2, 4, 6]));
    let combined = [
        Pattern::Any(vec![by_head.clone(), Pattern::Causal]),
        Pattern::All(vec![by_head.clone(), window(1, 1)]),
        Pattern::All(vec![by_head.clone(), Pattern::Explicit(mask(&[4, 6]))]),
        Pattern::Any(vec![Pattern::TopK(1), by_head.clone()]),
        Pattern::Any(vec![Pattern::TopK(1), Pattern::Strided(0)]),
    ];
    for pattern in combined {
        refused(pattern);
    }
    // Nothing to look at is nothing to draw.
    for pattern in [window(5, 5), Pattern::Global(vec![0]), Pattern::Any(vec![Pattern::Causal, window(9, 9)])]
    {
        for (queries, keys) in [(1, 0), (0, 1), (0, 0)] {
            assert!(pattern.compile(queries, keys).is_ok() && pattern.mask(queries, keys).is_ok());
        }
    }
}

#[test]
fn dense_rules_reject_masks_of_other_shapes() {
    let inputs = inputs([4, 6, 2, 2]);
    let rules = Rules::new(Pattern::Full, 4, 6).unwrap();
    for shape in [&[2, 5][..], &[1, 6], &[2], &[6, 2]] {
        let rules = rules.clone().padded(Some(Mask::from_fn(shape, |_| true)));
        for (name, weigh) in crate::attention::kinds(2) {
            let how = How { weigh, ..How::default() };
            for probe in [regard_nn::Probe::new(), regard_nn::Probe::new().track("weights")] {
                let (query, key, value) = (&inputs.query, &inputs.key, &inputs.value);
                let projections = regard_nn::tensor::ops::Projections::Separate { query, key, value };
                let context = regard_nn::Context::inference().with_probe(&probe);
                let error = regard_nn::attention::attend(&context, projections, &how, &rules).unwrap_err();
                assert!(error.to_string().contains("mask"), "{name}: {error}");
            }
        }
    }
}
