//! Chat templates, against transformers (`tools/golden_chat.py`), and `regard generate --chat`.

use super::made::{complaint, gpt, said, text, tokenizer};
use regard::chat::{ChatTemplate, Message};
use regard_nn::Context;
use regard_nn::checkpoint;
use regard_nn::generate::{Continue, GenerationSettings, generate};
use regard_nn::tokens::Special;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::tempdir;

fn messages(value: &Value) -> Vec<Message> {
    let part = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    let all = value.as_array().unwrap().iter();
    all.map(|message| Message { role: part(message, "role"), content: part(message, "content") }).collect()
}

#[test]
fn templates_write_what_transformers_writes() {
    let golden: Value = serde_json::from_str(include_str!("../golden/chat.json")).unwrap();
    let special: BTreeMap<String, String> = serde_json::from_value(golden["special"].clone()).unwrap();
    let mut failed = 0;
    for case in golden["cases"].as_array().unwrap() {
        let (name, title) = (case["template"].as_str().unwrap(), case["conversation"].as_str().unwrap());
        let source = golden["templates"][name].as_str().unwrap().to_owned();
        let written =
            ChatTemplate::new(source, special.clone()).render(&messages(&golden["conversations"][title]));
        match (case["text"].as_str(), written) {
            (Some(expected), Ok(found)) => assert_eq!(found, expected, "{name}, {title}"),
            (Some(_), Err(error)) => panic!("{name}, {title}: {error}"),
            (None, Ok(found)) => panic!("{name}, {title}: {found}"),
            (None, Err(error)) => {
                failed += 1;
                let (error, expected) = (error.to_string(), case["error"].as_str().unwrap());
                let own = expected.starts_with("unexpected") || error.contains(expected);
                assert!(own && error.starts_with("the chat template fails: "), "{name}, {title}: {error}");
            }
        }
    }
    assert_eq!(failed, 6);
}

#[test]
fn templates_that_do_not_end_are_stopped() {
    for (source, problem) in [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}", "fuel"),
        ("{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "more than 16777216 bytes"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{% include 'secret' %}", "template"),
        ("{{ messages.nothing.more }}", "undefined"),
    ] {
        let error =
            ChatTemplate::new(source.to_owned(), BTreeMap::new()).render(&[]).unwrap_err().to_string();
        assert!(error.contains(problem) && error.lines().count() == 1, "{source}: {error}");
    }
}

#[test]
fn generate_chats_with_the_template_of_the_folder() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let model = text(folder.path());
    let (problem, code) = complaint(&["generate", model, "Hello", "--chat"]);
    assert!(problem.contains("has no chat template") && code == 1, "{problem}");
    assert_eq!(complaint(&["generate", model, "Hello", "--system", "x"]).1, 2);
    let source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
    let settings = json!({"chat_template": [{"name": "default", "template": source}]});
    std::fs::write(folder.path().join("tokenizer_config.json"), settings.to_string()).unwrap();
    let found = said(&["generate", model, "The cat", "--chat", "--system", "Hm", "--greedy", "-n", "6"]);
    let tokenizer = tokenizer(false);
    let ids = tokenizer.encode("system: Hm\nuser: The cat\nassistant:", Special::Drop).unwrap().ids;
    let opened = checkpoint::load(folder.path()).unwrap().model;
    let settings =
        GenerationSettings { max_tokens: 6, stop_tokens: vec![1], ..GenerationSettings::default() };
    let gpt = Continue::new(&*opened).unwrap();
    let whole = generate(&gpt, &Context::inference(), &[ids], &settings, &mut |_, _| true).unwrap();
    assert_eq!(found, format!("{}\n", tokenizer.decode(&whole[0].tokens, Special::Drop).unwrap()));
    // A file of its own counts before it.
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ raise_exception('no\nchat') }}").unwrap();
    let (problem, code) = complaint(&["generate", model, "Hello", "--chat"]);
    assert_eq!(
        (problem.as_str(), code),
        ("error: the chat template fails: no chat (line 1 of the template)\n", 1)
    );
}
