//! The test of Mann and Whitney: whether the values of one sample tend to be greater.

/// The share of pairs in which the value of `ours` is the greater one (equal ones count half), and
/// how many standard deviations that is away from one half.
pub(crate) fn greater(ours: &[f64], theirs: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> = ours.iter().map(|value| (*value, true)).collect();
    all.extend(theirs.iter().map(|value| (*value, false)));
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (n, m) = (count(ours.len()), count(theirs.len()));
    let mut ranks = 0.0;
    let mut ties = 0.0;
    let mut first = 0;
    for tied in all.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq()) {
        let size = count(tied.len());
        let middle = count(first) + f64::midpoint(size, 1.0);
        ranks += middle * count(tied.iter().filter(|(_, is_ours)| *is_ours).count());
        ties += size * size * size - size;
        first += tied.len();
    }
    let u = ranks - n * (n + 1.0) / 2.0;
    let all = n + m;
    let variance = n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    (u / (n * m), (u - n * m / 2.0) / variance.sqrt())
}

fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}
