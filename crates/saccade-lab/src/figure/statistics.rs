//! What a plot needs to know of a sample: quartiles and bins.

/// The finite values in order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value below which a share of the sorted sample lies, between neighbours where it falls there.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}

/// The width of a histogram's bins by Freedman & Diaconis (1981): 2·IQR·n^(−1/3); in number between 8 and 60.
pub(crate) fn bins(sorted: &[f64], span: f64) -> usize {
    let spread =
        quantile(sorted, 0.75).zip(quantile(sorted, 0.25)).map_or(0.0, |(upper, lower)| upper - lower);
    let width = 2.0 * spread / (sorted.len().max(1) as f64).cbrt();
    if width > 0.0 { (span / width).ceil().clamp(8.0, 60.0) as usize } else { 20 }
}
