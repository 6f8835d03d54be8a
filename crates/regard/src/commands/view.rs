//! `regard view`: the attention of one forward pass, as a page or a picture.

use crate::compute::Compute;
use crate::error::usage_error;
use crate::figure::{ColourScale, Gallery, HeatMap, Matrix, Picture};
use crate::forward_pass::{
    AttentionMap, ColourLimit, ForwardPass, Group, Input, Intervention, MapKey, MapScale, TokenDisplay,
};
use crate::standalone::{self, HeadFilter, PageContents};
use anyhow::{Context as _, Result};
use clap::{ArgGroup, Args, ValueEnum};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Look inside a model: a page that opens offline, or a picture of its heads.
///
/// An .html has all views of the page in one file, without server or network. An .svg or .png has all heads, the heads of
/// a layer, or one head.
#[derive(Args)]
#[command(after_help = "Examples:
  regard view gpt2 \"The cat sat on the mat because it was tired\" -o cat.html
  regard view gpt2 \"The cat sat on the mat because it was tired\" --layer 5 --head 1 -o head.svg
  regard view gpt2 \"The cat sat on the mat\" --change zero:layers.5.self:1 --change off:layers.0.ffn -o changed.html
  regard view t5-small \"Good morning.\" --second Guten --attention cross -o cross.png

Changes inside the model: zero:ATTENTION:HEAD, mean:ATTENTION:HEAD, block:ATTENTION:HEAD:QUERY:KEY, off:SUBLAYER,
scale:SITE:POSITION:FACTOR, steer:SITE:POSITION:FACTOR:TEXT. The page shows the prediction before and after.")]
#[command(
    override_usage = "regard view [OPTIONS] --out <FILE> <MODEL> <TEXT>\n       regard view [OPTIONS] --out <FILE> <MODEL> --image <FILE>"
)]
#[command(group(ArgGroup::new("input").args(["text", "image"]).required(true)))]
pub struct View {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// The text to read
    text: Option<String>,
    /// The beginning of a T5 decoder's output, or the second text of a BERT
    #[arg(long, value_name = "TEXT", default_value = "")]
    second: String,
    /// A PNG or JPEG to read
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Which attention, in models that have several kinds
    #[arg(long, value_name = "KIND")]
    attention: Option<AttentionArgument>,
    /// One layer
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// One head of it
    #[arg(long, value_name = "H", requires = "layer")]
    head: Option<usize>,
    /// Which values pictures show
    #[arg(long, value_name = "SCALE", default_value = "raw")]
    scale: ScaleArgument,
    /// Whole words instead of pieces, in pictures
    #[arg(long)]
    words: bool,
    /// Leave out special tokens, in pictures
    #[arg(long)]
    hide_special: bool,
    /// A change inside the model, such as zero:layers.5.self:1; may be given several times
    #[arg(long = "change", value_name = "CHANGE", value_parser = str::parse::<Intervention>)]
    changes: Vec<Intervention>,
    /// The file to write: .html, .svg or .png
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    compute: Compute,
}

/// Which tokens are queries and which are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AttentionArgument {
    /// Everything in models that read one text
    #[value(name = "self")]
    Itself,
    /// The source at itself
    Encoder,
    /// The target at itself
    Decoder,
    /// The target at the source
    Cross,
}

/// Which values a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScaleArgument {
    /// The weights
    Raw,
    /// The weights, coloured by their logarithm
    Log,
    /// The weights without the first token's
    Rest,
    /// The weights times the norms of the transformed values
    Norms,
}

/// Orders of magnitude of the logarithmic scale.
const DECADES: f64 = 4.0;
/// The most tokens of a text.
const MOST_TOKENS: usize = 8192;
/// The most cells of a picture.
const MOST_CELLS: usize = 16 << 20;
/// The largest picture file that is read.
const LARGEST_PICTURE: u64 = 64 << 20;

impl View {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let suffix =
            self.out.extension().and_then(|suffix| suffix.to_str()).unwrap_or("").to_ascii_lowercase();
        if !["html", "svg", "png"].contains(&suffix.as_str()) {
            return Err(usage_error(format!(
                "--out {}: pages are written as .html, pictures as .svg or .png; choose one of these endings",
                self.out.display()
            )));
        }
        let opened = Arc::new(self.compute.open(&self.model)?);
        let input = match (&self.image, &self.text) {
            (Some(path), _) => Input::Picture(picture(path)?),
            (None, text) => Input::Text(text.clone().unwrap_or_default(), self.second.clone()),
        };
        let run = |changes: Vec<Intervention>| {
            ForwardPass::changed(&opened, &input, &[], changes, MOST_TOKENS, &AtomicBool::new(false))
        };
        let pass = run(self.changes.clone())?;
        let group = self.attention.map(|kind| match kind {
            AttentionArgument::Itself => Group::Itself,
            AttentionArgument::Encoder => Group::Encoder,
            AttentionArgument::Decoder => Group::Decoder,
            AttentionArgument::Cross => Group::Cross,
        });
        let filter = HeadFilter { group, layer: self.layer, head: self.head };
        if suffix == "html" {
            let mut contents = PageContents::new(&self.model, &pass, &input, filter)?;
            if !self.changes.is_empty() {
                contents = contents.compared_with(&run(Vec::new())?)?;
            }
            let page = standalone::page(&contents)?;
            return write(&self.out, page.as_bytes());
        }
        let picture = self.draw(&pass, filter)?;
        picture.write(&self.out)
    }

    fn which(&self, (site, head): (usize, usize)) -> MapKey {
        let scale = match self.scale {
            ScaleArgument::Raw => MapScale::Raw,
            ScaleArgument::Log => MapScale::Log,
            ScaleArgument::Rest => MapScale::Rest,
            ScaleArgument::Norms => MapScale::Norms,
        };
        MapKey { site, head, scale, shown: TokenDisplay { merge: self.words, hide: self.hide_special } }
    }

    /// Colours that end where those of the page end.
    fn colours(&self, scale: ColourScale, tops: &[ColourLimit]) -> ColourScale {
        let most = |of: fn(&ColourLimit) -> f32| f64::from(tops.iter().map(of).fold(0.0, f32::max));
        let (top, largest) = (most(|top| top.top), most(|top| top.largest));
        match self.scale {
            ScaleArgument::Log if top > 0.0 => scale.range(top.log10() - DECADES, top.log10()),
            _ if top < largest => scale.range(0.0, top),
            _ => scale,
        }
    }

    /// One head large, or several small.
    fn draw(&self, pass: &ForwardPass, mut filter: HeadFilter) -> Result<Picture> {
        let first = pass.sites().first().ok_or_else(|| usage_error("this model has no attention heads"))?;
        let group = *filter.group.get_or_insert(first.group);
        let heads = filter.heads(pass)?;
        let shown = TokenDisplay { merge: self.words, hide: self.hide_special };
        let (rows, columns) = pass.axes(group, shown);
        if heads.len() * rows.len() * columns.len() > MOST_CELLS {
            let sizes = format!("{} × {}", rows.len(), columns.len());
            let problem = match heads.len() {
                1 => format!("{sizes} are too many cells for a picture: write an .html instead"),
                count => format!(
                    "{count} heads of {sizes} are too many cells for a picture: choose some with --layer and --head"
                ),
            };
            return Err(usage_error(problem));
        }
        let (queries, keys) = pass.sides(group);
        let (queries, keys) = (rows.labels(queries), columns.labels(keys));
        let label = match self.scale {
            ScaleArgument::Raw => "weight",
            ScaleArgument::Log => "log₁₀ of weight",
            ScaleArgument::Rest => "weight without the first token's",
            ScaleArgument::Norms => "weight by value norms",
        };
        let going = AtomicBool::new(false);
        let top = |&at: &(usize, usize)| AttentionMap::new(pass, self.which(at), &going)?.top(&going);
        let tops = heads.iter().map(top).collect::<Result<Vec<ColourLimit>>>()?;
        let scale = self.colours(ColourScale::sequential(label), &tops);
        let plain = rows.is_plain() && columns.is_plain();
        let hidden = |site: usize| {
            let causal = plain && pass.sites()[site].causal && group != Group::Cross;
            move |row: usize, column: usize| causal && column > row
        };
        let matrix = |at: (usize, usize)| -> Result<Matrix> {
            let grid = AttentionMap::new(pass, self.which(at), &going)?;
            let mut values = grid.block(0..rows.len(), 0..columns.len())?;
            if self.scale == ScaleArgument::Log {
                // Nothing is drawn as what is least.
                for value in &mut values {
                    *value = value.max(f32::MIN_POSITIVE).log10();
                }
            }
            Matrix::new(rows.len(), columns.len(), values)
        };
        if let [(site, head)] = heads[..] {
            let about = &pass.sites()[site];
            let map = HeatMap::new(matrix((site, head))?, scale)
                .words(queries, keys)
                .names("query", "key")
                .mask(hidden(site));
            return Ok(Picture::new(format!("{}: layer {}, head {head}", self.model, about.layer)).panel(map));
        }
        let widest = pass.sites().iter().map(|site| site.heads).max().unwrap_or(1);
        let in_a_row = if self.layer.is_some() { widest.min(6) } else { widest };
        let mut gallery = Gallery::new(in_a_row, scale);
        for &(site, head) in &heads {
            let title = match self.layer {
                Some(_) => format!("head {head}"),
                None => String::new(),
            };
            gallery = gallery.masked_map(title, matrix((site, head))?, hidden(site));
        }
        let title = match self.layer {
            Some(layer) => {
                gallery = gallery.words(queries, keys);
                format!("{}: the heads of layer {layer}", self.model)
            }
            None => {
                let layers = pass.sites().iter().filter(|site| site.group == group);
                gallery = gallery
                    .row_titles(layers.map(|site| format!("layer {}", site.layer)).collect())
                    .column_titles((0..widest).map(|head| format!("head {head}")).collect());
                format!("{}: all heads", self.model)
            }
        };
        Ok(Picture::new(title).panel(gallery))
    }
}

fn picture(path: &Path) -> Result<Vec<u8>> {
    let wrong = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .with_context(wrong)?
        .take(LARGEST_PICTURE + 1)
        .read_to_end(&mut bytes)
        .with_context(wrong)?;
    anyhow::ensure!(bytes.len() as u64 <= LARGEST_PICTURE, "{} is too large", path.display());
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    regard_nn::data::file::write_whole(path, |file| file.write_all(bytes))?;
    Ok(())
}
