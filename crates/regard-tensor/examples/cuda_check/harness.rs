//! One check: run twice on poisoned memory, compare with the reference, time.

use crate::inputs::Inputs;
use regard_tensor::cuda::{Buffer, Device, Element, Result, Timer};
use std::sync::Arc;
use std::time::Instant;

/// What a result should be.
pub enum Expected {
    /// All its values.
    All(Vec<f64>),
    /// Some of its rows, of this width.
    Rows(usize, Vec<(usize, Vec<f64>)>),
    /// Sums, whose error depends on what was summed.
    Sums(Box<Expected>, Terms),
    /// Differences of values with this norm, which may cancel: the error is compared with it, if it is larger than the result.
    Differences(Box<Expected>, f64),
}

/// What a sum was taken of.
#[derive(Clone, Copy)]
pub enum Terms {
    /// Values of this type. Where one lies between two values of the type, the reference may have taken the other.
    Rounded(Element),
    /// So many products on tensor cores, which add sixteen at a time and cut the sum off: each time by up to 2⁻²³ of it, and
    /// always towards zero, so that errors add up. The sum grows with the root of the number of terms, so its mean size on
    /// the way is two thirds of its last.
    Products(usize),
}

impl Terms {
    fn tolerance(self) -> f64 {
        match self {
            Self::Rounded(Element::Bf16) => 2.0_f64.powi(-8),
            Self::Rounded(Element::F16) => 2.0_f64.powi(-11),
            Self::Rounded(_) => 0.0,
            Self::Products(count) => 2.0 / 3.0 * (count / 16) as f64 * 2.0_f64.powi(-23),
        }
    }
}

impl Expected {
    pub fn summed(self, terms: Terms) -> Self {
        Self::Sums(Box::new(self), terms)
    }

    /// Marks differences of these values.
    pub fn between(self, values: &[f32]) -> Self {
        let norm = values.iter().map(|&x| f64::from(x).powi(2)).filter(|x| x.is_finite()).sum::<f64>().sqrt();
        Self::Differences(Box::new(self), norm)
    }

    fn tolerance(&self, element: Element) -> f64 {
        match self {
            Self::Differences(values, _) => values.tolerance(element),
            Self::Sums(_, terms) => tolerance(element).max(terms.tolerance()),
            Self::All(_) | Self::Rows(..) => tolerance(element),
        }
    }
}

/// How much a kernel does.
#[derive(Clone, Copy)]
pub enum Work {
    /// Bytes read and written.
    Bytes(usize),
    /// Floating-point operations.
    Operations(f64),
}

pub struct Check {
    pub device: Arc<Device>,
    pub inputs: Inputs,
    filters: Vec<String>,
    quick: bool,
    failures: usize,
    checks: usize,
    started: Instant,
}

/// A kernel, the type it runs on, and the size.
pub struct Case<'a> {
    pub name: &'a str,
    pub element: Element,
    pub shape: String,
}

impl Check {
    pub fn new(device: Arc<Device>, filters: Vec<String>, seed: u64, quick: bool) -> Self {
        let inputs = Inputs::new(device.clone(), seed);
        Self { device, inputs, filters, quick, failures: 0, checks: 0, started: Instant::now() }
    }

    /// Runs a group; an error in it is one failure.
    pub fn group(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = run(self) {
            println!("FAIL  error: {error}");
            self.failures += 1;
        }
    }

    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Sizes to check: all, or without the last (the largest) in a quick run.
    pub fn sizes<'a, S>(&self, sizes: &'a [S]) -> &'a [S] {
        if self.quick { &sizes[..sizes.len() - 1] } else { sizes }
    }

    /// Compares, and times if there is work to count. Fails only if the device cannot go on.
    pub fn case(
        &mut self,
        case: &Case,
        run: impl FnMut() -> Result<Vec<Buffer>>,
        expected: impl FnOnce() -> Vec<Expected>,
        timed: Option<(Work, &mut dyn FnMut() -> Result<()>)>,
    ) -> Result<()> {
        if let Err(error) = self.compare(case, run, expected, timed) {
            self.failures += 1;
            self.checks += 1;
            println!("FAIL  {:<28} {:?} {}: {error}", case.name, case.element, case.shape);
            self.device.set_poison(false);
        }
        self.device.synchronise()
    }

    fn compare(
        &mut self,
        case: &Case,
        mut run: impl FnMut() -> Result<Vec<Buffer>>,
        expected: impl FnOnce() -> Vec<Expected>,
        timed: Option<(Work, &mut dyn FnMut() -> Result<()>)>,
    ) -> Result<()> {
        self.device.set_poison(true);
        let (first, second) = (run()?, run()?);
        self.device.set_poison(false);
        let mut same = true;
        let mut worst = 0.0_f64;
        let mut fits = true;
        let expected = expected();
        assert_eq!(first.len(), expected.len(), "as many results as references");
        for ((a, b), expected) in first.iter().zip(&second).zip(&expected) {
            let (a_bits, b_bits) = (bits(a)?, bits(b)?);
            same &= a_bits == b_bits;
            let error = error(&a_bits, a.element(), expected, 1e-300);
            fits &= error < expected.tolerance(a.element());
            worst = if error.is_nan() || error > worst { error } else { worst };
        }
        drop((first, second));
        let rate = match timed {
            Some((work, again)) => rate(work, time(&self.device, again)?),
            None => String::new(),
        };
        let good = same && fits;
        self.checks += 1;
        self.failures += usize::from(!good);
        println!(
            "{}  {:<28} {:<5} {:<18} error {worst:<8.1e} {}  {rate}",
            if good { "ok  " } else { "FAIL" },
            case.name,
            format!("{:?}", case.element).to_lowercase(),
            case.shape,
            if same { "same bits" } else { "BITS DIFFER" },
        );
        Ok(())
    }

    pub fn finish(self) -> usize {
        let usage = self.device.usage();
        println!(
            "{} checks, {} failed in {:.0} s; memory: {} MiB at most, {} calls of the driver",
            self.checks,
            self.failures,
            self.started.elapsed().as_secs_f64(),
            usage.peak >> 20,
            usage.driver_calls
        );
        self.failures
    }
}

fn bits(buffer: &Buffer) -> Result<Vec<u32>> {
    Ok(match buffer.element() {
        Element::F32 => buffer.view().read::<f32>()?.into_iter().map(f32::to_bits).collect(),
        Element::Bf16 | Element::F16 => buffer.view().read::<u16>()?.into_iter().map(u32::from).collect(),
        Element::U32 => buffer.view().read::<u32>()?,
        Element::U8 => buffer.view().read::<u8>()?.into_iter().map(u32::from).collect(),
        Element::F64 => buffer.view().read::<f64>()?.into_iter().map(|x| (x as f32).to_bits()).collect(),
    })
}

fn decode(bits: u32, element: Element) -> f64 {
    match element {
        Element::F32 | Element::F64 => f64::from(f32::from_bits(bits)),
        Element::Bf16 => f64::from(f32::from_bits(bits << 16)),
        Element::F16 => half(bits),
        Element::U32 | Element::U8 => f64::from(bits),
    }
}

/// The value of a half-precision number.
fn half(bits: u32) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10 & 31) as i32, f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2.0_f64.powi(exponent - 25),
    };
    if sign == 1 { -size } else { size }
}

fn tolerance(element: Element) -> f64 {
    match element {
        Element::F32 | Element::F64 => 1e-5,
        Element::Bf16 => 1e-2,
        Element::F16 => 1e-3,
        Element::U32 | Element::U8 => 1e-300,
    }
}

/// ‖got − expected‖ / ‖expected‖, or over `least` if that is larger.
fn error(got: &[u32], element: Element, expected: &Expected, least: f64) -> f64 {
    let (mut away, mut size) = (0.0, 0.0);
    let mut compare = |got: &[u32], expected: &[f64]| {
        if got.len() != expected.len() {
            away = f64::NAN;
        }
        for (&bits, e) in got.iter().zip(expected) {
            let g = decode(bits, element);
            if g != *e {
                away += (g - e).powi(2);
            }
            if e.is_finite() {
                size += e.powi(2);
            }
        }
    };
    match expected {
        Expected::Sums(values, _) => return self::error(got, element, values, least),
        Expected::Differences(values, norm) => return self::error(got, element, values, *norm),
        Expected::All(values) => compare(got, values),
        Expected::Rows(width, rows) => {
            for (row, values) in rows {
                compare(&got[row * width..(row + 1) * width], values);
            }
        }
    }
    if away == 0.0 { 0.0 } else { away.sqrt() / f64::max(size.sqrt(), least) }
}

/// The median of some runs, in milliseconds.
fn time(device: &Device, again: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..3 {
        again()?;
    }
    let mut times = Vec::new();
    for _ in 0..21 {
        let timer = Timer::start(device)?;
        again()?;
        times.push(timer.stop()?);
    }
    times.sort_by(f32::total_cmp);
    Ok(f64::from(times[times.len() / 2]))
}

fn rate(work: Work, milliseconds: f64) -> String {
    match work {
        Work::Bytes(bytes) => {
            format!("{milliseconds:8.4} ms {:7.0} GB/s", bytes as f64 / milliseconds * 1e-6)
        }
        Work::Operations(count) => {
            format!("{milliseconds:8.4} ms {:7.1} TFLOP/s", count / milliseconds * 1e-9)
        }
    }
}

/// The copy of the driver: the rate to measure others by.
pub fn check_memory(check: &mut Check) -> Result<()> {
    if !check.wants("copy") {
        return Ok(());
    }
    for &count in check.sizes(&[1, 1023, 1 << 28]) {
        let x = check.inputs.normal(count, Element::F32)?;
        let case = Case { name: "copy", element: Element::F32, shape: count.to_string() };
        let mut to = check.device.allocate(count, Element::F32)?;
        let mut again = || to.view_mut().copy_from(x.buffer.view());
        let timed = (count > 1 << 20).then_some((Work::Bytes(8 * count), &mut again as _));
        check.case(
            &case,
            || Ok(vec![x.buffer.view().copy()?]),
            || vec![Expected::All(x.host.iter().map(|&x| f64::from(x)).collect())],
            timed,
        )?;
    }
    Ok(())
}
