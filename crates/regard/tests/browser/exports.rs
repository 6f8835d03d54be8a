//! Figures, numbers and links are saved.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
use tempfile::TempDir;

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn every_view_is_saved_as_svg_png_and_csv() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(1200, 900);
    chrome.open(&server.address);
    chrome.shown("heads");
    for view in ["heads", "head", "lines", "why", "flow", "lens", "next", "without", "compare", "search"] {
        chrome.view(view);
        chrome.click("#save-svg");
        let svg = String::from_utf8(chrome.downloaded(".svg")).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|problem| panic!("{view}: {problem}"));
        assert!(document.descendants().count() > 20, "{view}");
        assert!(!svg.contains("var(") && !svg.contains("NaN") && !svg.contains("undefined"), "{view}");
        chrome.click("#save-png");
        assert_eq!(&chrome.downloaded(".png")[1..4], b"PNG", "{view}");
        chrome.click("#save-csv");
        let csv = String::from_utf8(chrome.downloaded(".csv")).unwrap();
        assert!(csv.lines().count() > 3, "{view}");
    }
    // Where nothing has been computed, the page says so instead of saving an empty picture.
    chrome.view("patching");
    chrome.click("#save-svg");
    chrome.until("document.querySelector('#problem').textContent.includes('nothing to save')");
    // The link leads to the same place.
    chrome.value("location.hash = '#view=head&layer=2&head=3&text=The+cat+sat&query=1'");
    chrome.until("document.querySelector('#at-head')?.textContent === 'head 3'");
    let link = chrome.value("location.href").as_str().unwrap().to_owned();
    chrome.open("about:blank");
    chrome.open(&link);
    chrome.shown("head");
    assert_eq!((chrome.text("#at-layer"), chrome.text("#at-head")), ("layer 2".into(), "head 3".into()));
    assert_eq!(chrome.value("document.querySelector('#text').value"), "The cat sat");
    chrome.ensure_quiet();
}
