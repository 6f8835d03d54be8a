//! The page as one file that opens offline: its style, its scripts, and the numbers of one forward pass.

mod contents;

pub use crate::server::web::VIEWS;
pub use contents::{HeadFilter, PageContents, Start};

use crate::figure::stylesheet;
use crate::server::web::FILES;
use anyhow::{Context as _, Result};
use base64::Engine as _;
use std::fmt::Write as _;

/// The file may load nothing at all.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/// The page with a forward pass in it.
pub fn page(held: &PageContents) -> Result<String> {
    let file = |name: &str| FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let [html, style, icon] = ["index.html", "style.css", "icon.svg"].map(file);
    let (html, style, icon) =
        (html.context("index.html")?, style.context("style.css")?, icon.context("icon.svg")?);
    // A closing tag inside a string would end the script.
    let data = serde_json::to_string(held)?.replace("</", "<\\/");
    let icon = base64::engine::general_purpose::STANDARD.encode(icon);
    let changes = [
        (
            r#"<meta charset="utf-8">"#,
            format!(
                r#"<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">"#
            ),
        ),
        (r#"href="icon.svg""#, format!(r#"href="data:image/svg+xml;base64,{icon}""#)),
        (r#"<link rel="stylesheet" href="colours.css">"#, format!("<style>{}</style>", stylesheet())),
        (r#"<link rel="stylesheet" href="style.css">"#, format!("<style>{style}</style>")),
        // One forward pass is no film.
        (r#"<link rel="stylesheet" href="film.css">"#, String::new()),
        (r#"<script type="module" src="js/main.js"></script>"#, String::new()),
        (
            "</body>",
            format!(
                "<script type=\"application/json\" id=\"held\">{data}</script>\n<script type=\"module\">\n{}</script>\n</body>",
                scripts()
            ),
        ),
    ];
    let mut page = html.to_owned();
    for (from, to) in changes {
        anyhow::ensure!(page.contains(from), "index.html has no {from}");
        page = page.replacen(from, &to, 1);
    }
    Ok(page)
}

/// All scripts as one: without imports and exports, which a single file does not need. Their names are all
/// different, and scripts come after those that they import.
fn scripts() -> String {
    let mut all = String::new();
    for (name, text) in FILES.iter().filter(|(name, _)| name.starts_with("js/")) {
        let _ = writeln!(all, "// {name}");
        for line in text.lines().filter(|line| !line.starts_with("import ")) {
            all.push_str(line.strip_prefix("export ").unwrap_or(line));
            all.push('\n');
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a line declares, if it declares something for the whole script.
    fn declared(line: &str) -> Option<&str> {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest =
            ["function ", "const ", "let ", "class "].iter().find_map(|word| line.strip_prefix(word))?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
    }

    #[test]
    fn scripts_can_be_joined() {
        let mut names = BTreeSet::new();
        let mut before = BTreeSet::new();
        for (file, text) in FILES.iter().filter(|(name, _)| name.starts_with("js/")) {
            for line in text.lines() {
                if let Some(name) = declared(line) {
                    assert!(names.insert(name), "{name} is declared twice, the second time in {file}");
                }
                if let Some(import) = line.strip_prefix("import ") {
                    let from = import.split('"').nth(1).unwrap().trim_start_matches("./");
                    assert!(before.contains(from), "{file} imports {from}, which must stand before it");
                }
            }
            assert!(!text.contains("</script"), "{file}");
            before.insert(file.trim_start_matches("js/"));
        }
        assert!(!scripts().contains("\nimport ") && !scripts().contains("\nexport "));
    }
}
