//! Quartiles and bins of a sample.

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
    // Weighted, because the difference of two huge values need not be finite.
    Some(below * (1.0 - place.fract()) + above * place.fract())
}

/// The width of a histogram's bins by Freedman & Diaconis (1981): 2·IQR·n^(−1/3); in number between 8 and 60.
pub(crate) fn bins(sorted: &[f64], span: f64) -> usize {
    let spread =
        quantile(sorted, 0.75).zip(quantile(sorted, 0.25)).map_or(0.0, |(upper, lower)| upper - lower);
    let width = 2.0 * spread / (sorted.len().max(1) as f64).cbrt();
    let count = (span / width).ceil();
    if count.is_finite() { (count as usize).clamp(8, 60) } else { 20 }
}
