//! Pictures as a model reads them: resized, scaled and normalised by its `preprocessor_config.json`.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use png::{ColorType, Decoder, Limits, Transformations};
use regard_nn::checkpoint::StoredWeights;
use regard_nn::models::form::Patches;
use regard_nn::tensor::Tensor;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Seek};
use std::path::Path;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// How a model's pictures are preprocessed. Each key is that of `preprocessor_config.json`, with Hugging Face's default for ViT.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Preprocessing {
    do_resize: bool,
    size: Value,
    resample: u8,
    do_rescale: bool,
    rescale_factor: f32,
    do_normalize: bool,
    image_mean: Vec<f32>,
    image_std: Vec<f32>,
    do_center_crop: Option<bool>,
}

impl Default for Preprocessing {
    fn default() -> Self {
        Self {
            do_resize: true,
            size: Value::Null,
            resample: 2,
            do_rescale: true,
            rescale_factor: 1.0 / 255.0,
            do_normalize: true,
            image_mean: vec![0.5],
            image_std: vec![0.5],
            do_center_crop: None,
        }
    }
}

/// What a JPEG begins with.
const JPEG: &[u8] = &[0xff, 0xd8];

/// No picture needs more memory than this as it is decoded.
const LARGEST_PICTURE: usize = 512 << 20;

/// No picture has more points than this: each takes up to 15 bytes, and time that a small file can ask for.
const MOST_POINTS: usize = 64 << 20;

/// Fails if a picture has too many points to be worth reading.
fn ensure_small(width: usize, height: usize) -> Result<()> {
    let fits = width.checked_mul(height).is_some_and(|points| points <= MOST_POINTS);
    ensure!(fits, "the picture is too large: {width} × {height} points, at most {MOST_POINTS} are read");
    Ok(())
}

impl Preprocessing {
    /// The preprocessing of a model's folder, or the default if it has none.
    pub fn of(folder: &Path) -> Result<Self> {
        let path = folder.join("preprocessor_config.json");
        match crate::model::settings(&path)? {
            Value::Null => Ok(Self::default()),
            found => {
                serde_json::from_value(found).with_context(|| format!("{} cannot be read", path.display()))
            }
        }
    }

    /// Height and width that pictures are given.
    fn target(&self, model: Patches) -> Result<[usize; 2]> {
        let number = |value: &Value| value.as_u64().and_then(|side| usize::try_from(side).ok());
        let target = match &self.size {
            Value::Null => Some(model.image),
            Value::Object(sides) => match (sides.get("height"), sides.get("width")) {
                (Some(height), Some(width)) => number(height).zip(number(width)).map(|(h, w)| [h, w]),
                _ => None,
            },
            one => number(one).map(|side| [side, side]),
        };
        match target {
            Some(target) if target == model.image => Ok(target),
            Some([height, width]) => bail!(
                "preprocessor_config.json makes pictures {height}×{width}, but the model reads {}×{}",
                model.image[0],
                model.image[1]
            ),
            None => bail!("preprocessor_config.json: size is {}, which is not implemented", self.size),
        }
    }
}

/// Reads a picture for a model: a PNG or JPEG, or `pixels` in a `.safetensors` file, which are taken as they are. The result is
/// (1, channels, height, width).
pub fn read(path: &Path, preprocessing: &Preprocessing, model: Patches) -> Result<Tensor> {
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        let file = StoredWeights::from_files(&[path])?;
        let pixels = match file.read("pixels")? {
            Some(pixels) => Some(pixels),
            None => file.read("inputs/pixels")?,
        };
        let pixels = pixels.with_context(|| format!("{} has no tensor `pixels`", path.display()))?;
        return match pixels.shape().rank() {
            3 => Ok(pixels.reshape([&[1], &pixels.shape()[..]].concat())?),
            _ => Ok(pixels),
        };
    }
    let wrong = || format!("{} is not a PNG or JPEG that can be read", path.display());
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let picture = DecodedImage::read(BufReader::new(file), model.channels).with_context(wrong)?;
    prepare(&picture, preprocessing, model).with_context(|| path.display().to_string())
}

/// Whether a file's name is that of a picture that can be read.
pub fn is_picture(path: &Path) -> bool {
    let known =
        |end: &std::ffi::OsStr| ["png", "jpg", "jpeg"].iter().any(|name| end.eq_ignore_ascii_case(name));
    path.extension().is_some_and(known)
}

/// What browsers call the format of a picture.
pub fn media_type(bytes: &[u8]) -> &'static str {
    if bytes.starts_with(JPEG) { "image/jpeg" } else { "image/png" }
}

/// Reads a PNG or JPEG from memory for a model: (1, channels, height, width).
pub fn decode(bytes: &[u8], preprocessing: &Preprocessing, model: Patches) -> Result<Tensor> {
    let picture = DecodedImage::read(Cursor::new(bytes), model.channels)
        .context("this is not a PNG or JPEG that can be read")?;
    prepare(&picture, preprocessing, model)
}

fn prepare(picture: &DecodedImage, preprocessing: &Preprocessing, model: Patches) -> Result<Tensor> {
    ensure!(
        preprocessing.do_center_crop != Some(true),
        "preprocessor_config.json: do_center_crop is not implemented"
    );
    let [height, width] = preprocessing.target(model)?;
    let fits = (picture.height, picture.width) == (height, width);
    ensure!(
        fits || preprocessing.do_resize,
        "the picture is {}×{}, but the model reads {height}×{width} and does not resize",
        picture.height,
        picture.width
    );
    let resized =
        if fits { picture.clone() } else { picture.resize(height, width, preprocessing.resample)? };
    let factor = if preprocessing.do_rescale { preprocessing.rescale_factor } else { 1.0 };
    let per_channel = |values: &[f32], what: &str| -> Result<Vec<f32>> {
        match values {
            [one] => Ok(vec![*one; model.channels]),
            several if several.len() == model.channels => Ok(several.to_vec()),
            other => Err(anyhow!(
                "preprocessor_config.json: {what} has {} values for {} channels",
                other.len(),
                model.channels
            )),
        }
    };
    let (mean, deviation) = match preprocessing.do_normalize {
        true => (
            per_channel(&preprocessing.image_mean, "image_mean")?,
            per_channel(&preprocessing.image_std, "image_std")?,
        ),
        false => (vec![0.0; model.channels], vec![1.0; model.channels]),
    };
    let area = height * width;
    let values = (0..model.channels * area).map(|at| {
        let (channel, place) = (at / area, at % area);
        (resized.values[place * model.channels + channel] * factor - mean[channel]) / deviation[channel]
    });
    Ok(Tensor::new(&values.collect::<Vec<_>>(), [1, model.channels, height, width])?)
}

/// Values of 0 to 255, row by row, the channels of a point together.
#[derive(Debug, Clone)]
struct DecodedImage {
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<f32>,
}

impl DecodedImage {
    fn read(mut file: impl BufRead + Seek, channels: usize) -> Result<Self> {
        ensure!(matches!(channels, 1 | 3), "a picture has 1 or 3 channels, the model reads {channels}");
        match file.fill_buf()?.starts_with(JPEG) {
            true => Self::read_jpeg(file, channels),
            false => Self::read_png(file, channels),
        }
    }

    fn read_png(file: impl BufRead + Seek, channels: usize) -> Result<Self> {
        let mut decoder = Decoder::new_with_limits(file, Limits { bytes: LARGEST_PICTURE });
        decoder.set_transformations(Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        ensure_small(reader.info().width as usize, reader.info().height as usize)?;
        let size = reader.output_buffer_size().filter(|&size| size <= LARGEST_PICTURE);
        let size = size.context("the picture is too large")?;
        let mut bytes = vec![0; size];
        let info = reader.next_frame(&mut bytes)?;
        let samples = info.color_type.samples();
        let grey = matches!(info.color_type, ColorType::Grayscale | ColorType::GrayscaleAlpha);
        let used = info.buffer_size().min(bytes.len());
        let sides = (info.height as usize, info.width as usize);
        Ok(Self::of(&bytes[..used], (samples, grey), sides, channels))
    }

    /// A JPEG, damaged ones rejected rather than filled with grey.
    fn read_jpeg(file: impl BufRead + Seek, channels: usize) -> Result<Self> {
        let options = DecoderOptions::default().set_strict_mode(true);
        let mut decoder = JpegDecoder::new_with_options(file, options);
        decoder.decode_headers()?;
        let (width, height) = decoder.dimensions().context("the picture has no size")?;
        ensure_small(width, height)?;
        let grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
        let colour = if grey { ColorSpace::Luma } else { ColorSpace::RGB };
        decoder.set_options(options.jpeg_set_out_colorspace(colour));
        let fits = decoder.output_buffer_size().is_some_and(|size| size <= LARGEST_PICTURE);
        ensure!(fits, "the picture is too large");
        let bytes = decoder.decode()?;
        let info = decoder.info().context("the picture has no size")?;
        let sides = (usize::from(info.height), usize::from(info.width));
        Ok(Self::of(&bytes, (if grey { 1 } else { 3 }, grey), sides, channels))
    }

    /// A picture of bytes, so many a point, in grey or colour. Transparency is dropped, as Pillow's conversion to RGB does.
    fn of(
        bytes: &[u8],
        (samples, grey): (usize, bool),
        (height, width): (usize, usize),
        channels: usize,
    ) -> Self {
        let mut values = Vec::with_capacity(bytes.len() / samples * channels);
        for point in bytes.chunks_exact(samples) {
            let colour = if grey { [point[0]; 3] } else { [point[0], point[1], point[2]] };
            let [red, green, blue] = colour.map(f32::from);
            match channels {
                // The luma of ITU-R 601, in whole numbers.
                1 if grey => values.push(red),
                1 => values.push((0.299 * red + 0.587 * green + 0.114 * blue).round()),
                _ => values.extend([red, green, blue]),
            }
        }
        Self { height, width, channels, values }
    }

    /// Resized as Pillow does it: a filter as wide as the reduction, along rows and then columns, each rounded to whole
    /// numbers. (Pillow 13 takes columns first where that is less work, which changes some points, by up to 11 levels of 255 in a narrow image.)
    fn resize(&self, height: usize, width: usize, resample: u8) -> Result<Self> {
        let filter: (f64, fn(f64) -> f64) = match resample {
            2 => (1.0, |x| (1.0 - x.abs()).max(0.0)),
            3 => (2.0, cubic),
            other => bail!("preprocessor_config.json: resample {other} is not implemented; 2 and 3 are"),
        };
        let Self { channels, .. } = *self;
        let mut across = Vec::with_capacity(self.height * width * channels);
        let columns = taps(self.width, width, filter);
        for row in self.values.chunks_exact(self.width * channels) {
            for (first, weights) in &columns {
                for channel in 0..channels {
                    let at = |i: usize| f64::from(row[(first + i) * channels + channel]);
                    let sum: f64 = weights.iter().enumerate().map(|(i, weight)| weight * at(i)).sum();
                    across.push(to_whole(sum));
                }
            }
        }
        let mut values = Vec::with_capacity(height * width * channels);
        for (first, weights) in taps(self.height, height, filter) {
            for place in 0..width * channels {
                let at = |i: usize| f64::from(across[(first + i) * width * channels + place]);
                let sum: f64 = weights.iter().enumerate().map(|(i, weight)| weight * at(i)).sum();
                values.push(to_whole(sum));
            }
        }
        Ok(Self { height, width, channels, values })
    }
}

fn to_whole(value: f64) -> f32 {
    value.round().clamp(0.0, 255.0) as f32
}

/// Keys' cubic with a = −1/2.
fn cubic(x: f64) -> f64 {
    let x = x.abs();
    match x {
        x if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
        x if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
        _ => 0.0,
    }
}

/// For each new place, the first old one that counts and the weights from there on.
fn taps(from: usize, to: usize, (support, filter): (f64, fn(f64) -> f64)) -> Vec<(usize, Vec<f64>)> {
    let scale = from as f64 / to as f64;
    let wide = scale.max(1.0);
    let tap = |place: usize| {
        let centre = (place as f64 + 0.5) * scale;
        let first = (centre - support * wide + 0.5).max(0.0) as usize;
        let last = ((centre + support * wide + 0.5) as usize).min(from);
        let weights: Vec<f64> = (first..last).map(|i| filter((i as f64 - centre + 0.5) / wide)).collect();
        let total: f64 = weights.iter().sum();
        (first, weights.iter().map(|weight| weight / total).collect())
    };
    (0..to).map(tap).collect()
}
