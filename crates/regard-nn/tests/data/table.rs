//! TSV and CSV with labels.

use super::made::{Folder, gzip, problem};
use regard_nn::data::table::{Columns, Format, read};

fn columns(text: &str, second: Option<&str>, label: &str) -> Columns {
    Columns { text: text.into(), second: second.map(Into::into), label: label.into() }
}

#[test]
fn glue_tables_are_read_with_quotation_marks_as_text() {
    let folder = Folder::new();
    let content = "sentence\tlabel\na \"fine\" film \t1\n\"dull\t0\r\nit 's good , , really\t1\n";
    for content in [content.as_bytes().to_vec(), gzip(content)] {
        let path = folder.write("train.tsv", content);
        let table = read(&path, Format::of(&path), &Columns::default()).expect("reading");
        assert_eq!(table.classes, ["0", "1"]);
        let texts: Vec<_> = table.examples.iter().map(|e| (e.text.as_str(), e.label)).collect();
        assert_eq!(texts, [("a \"fine\" film", 1), ("\"dull", 0), ("it 's good , , really", 1)]);
    }
}

#[test]
fn csv_fields_may_contain_commas_lines_and_quotation_marks() {
    let folder = Folder::new();
    let content = "\u{feff}id,stars,review\n1,good,\"a, \"\"b\"\"\nc\"\n2,bad,plain\n";
    let path = folder.write("r.csv", content);
    assert_eq!(Format::of(&path), Format::Csv);
    let table = read(&path, Format::Csv, &columns("review", None, "stars")).expect("reading");
    assert_eq!(table.classes, ["bad", "good"]);
    assert_eq!((table.examples[0].text.as_str(), table.examples[0].label), ("a, \"b\"\nc", 1));
    let first =
        read(&path, Format::Csv, &columns("review", None, "id")).expect("the mark is no part of the name");
    assert_eq!(first.classes, ["1", "2"]);
}

#[test]
fn the_file_name_determines_the_format() {
    for (name, format) in [
        ("a.csv", Format::Csv),
        ("a.CSV.gz", Format::Csv),
        ("a.tsv", Format::Tsv),
        ("a.txt.gz", Format::Tsv),
        ("csv", Format::Tsv),
    ] {
        assert_eq!(Format::of(name), format, "{name}");
    }
}

#[test]
fn numeric_classes_are_in_numerical_order_and_pairs_have_two_texts() {
    let folder = Folder::new();
    let path = folder.write("p.tsv", "a\tb\ty\nx\tX\t10\ny\tY\t9\nz\tZ\t-1\n");
    let table = read(&path, Format::Tsv, &columns("a", Some("b"), "y")).expect("reading");
    assert_eq!(table.classes, ["-1", "9", "10"]);
    assert_eq!(table.labels(), [2, 1, 0]);
    assert_eq!(table.examples[1].second.as_deref(), Some("Y"));
}

#[test]
fn errors_of_tables_name_the_problem_and_the_line() {
    let folder = Folder::new();
    let open = |content: &[u8]| {
        problem(&folder, read(folder.write("t.tsv", content), Format::Tsv, &Columns::default()))
    };
    assert!(open(b"").contains("t.tsv: the file is empty"), "{}", open(b""));
    assert_eq!(open(b"sentence\tlabel\n"), "t.tsv: there are no lines after the header");
    assert_eq!(
        open(b"text\tlabel\nx\t1\n"),
        "t.tsv, line 1: no column \"sentence\"; there are [\"text\", \"label\"]"
    );
    assert_eq!(
        open(b"sentence\tclass\nx\t1\n"),
        "t.tsv, line 1: no column \"label\"; there are [\"sentence\", \"class\"]"
    );
    let one = open(b"sentence\tlabel\nx\t1\ny\t1\n");
    assert!(one.contains("one class only, \"1\""), "{one}");
    assert_eq!(open(b"sentence\tlabel\nx\t1\ny\n"), "t.tsv, line 3: expected 2 columns, got 1");
    assert_eq!(open(b"sentence\tlabel\nx\t1\ny\t\n"), "t.tsv, line 3: the column \"label\" is empty");
    assert_eq!(open(b"sentence\tlabel\n\t1\n"), "t.tsv, line 2: the column \"sentence\" is empty");
    assert_eq!(open(b"sentence\tlabel\nx\xff\t1\n"), "t.tsv, line 2: not UTF-8 at byte 1 of column 1");
    let cut = gzip("sentence\tlabel\nx\t1\ny\t0\n");
    assert!(open(&cut[..cut.len() - 9]).contains("incomplete"));
}

#[test]
fn errors_quote_only_a_part_of_a_long_line() {
    let folder = Folder::new();
    let path = folder.write("t.tsv", "a very long line without any tab ".repeat(10_000));
    let error = problem(&folder, read(&path, Format::Tsv, &Columns::default()));
    assert!(error.contains("no column \"sentence\"") && error.len() < 600, "{} bytes", error.len());
    let path = folder.write("t.tsv", format!("sentence\tlabel\nx\t{}\n", "y".repeat(100_000)));
    let error = problem(&folder, read(&path, Format::Tsv, &Columns::default()));
    assert!(error.contains("one class only") && error.contains("nothing to classify"), "{error}");
    assert!(error.len() < 600, "{} bytes", error.len());
}
