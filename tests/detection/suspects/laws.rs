//! The laws of `detection.md`, over families of scripts.

use reprise::retry::suspects::SuspectRules;

use super::script::{Family, Script, scripts};
use super::world::{Report, SECOND_US, play};

/// One script of this many is played; the number is coprime to the number of habits.
/// `SUSPECTS_STEP=1` plays all, preferably with `--release`.
fn step() -> usize {
    std::env::var("SUSPECTS_STEP").ok().and_then(|text| text.parse().ok()).unwrap_or(53)
}

/// Scripts below which a mean says little.
const SCRIPTS_OF_A_MEAN: usize = 20;

fn reports(family: Family) -> Vec<(Script, Report)> {
    let play_one = |script: Script| {
        let report = play(&script, Some(SuspectRules::default()));
        (script, report)
    };
    scripts(family, step()).into_iter().map(play_one).collect()
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len() - 1) as f64 * share) as usize).copied().unwrap()
}

/// Committed records relative to the same scripts without detection, on average.
fn mean_throughput(reports: &[(Script, Report)]) -> f64 {
    let ratio = |(script, report): &(Script, Report)| {
        let without = play(script, None).committed;
        (without > 0).then(|| report.committed as f64 / without as f64)
    };
    let ratios: Vec<f64> = reports.iter().filter_map(ratio).collect();
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[test]
fn a_healthy_consumer_loses_no_record_and_no_throughput() {
    for family in [Family::Healthy, Family::Evictions] {
        let reports = reports(family);
        for (script, report) in &reports {
            assert_eq!(report.innocent_dead, 0, "{family:?} {script:?}");
        }
        let mean = mean_throughput(&reports);
        println!("{family:?}: {} scripts, throughput {mean:.3}", reports.len());
        assert!(mean >= 0.95 || reports.len() < SCRIPTS_OF_A_MEAN, "{family:?}: {mean}");
    }
}

#[test]
fn an_outage_makes_no_dead_letter() {
    for family in [
        Family::OutageMinutes(1),
        Family::OutageMinutes(10),
        Family::OutageMinutes(60),
        Family::TopicOutage,
    ] {
        let mut idle = Vec::new();
        for (script, report) in reports(family) {
            assert_eq!(report.innocent_dead, 0, "{family:?} {script:?}");
            idle.push(report.idle_after_outage_us as f64 / SECOND_US as f64);
        }
        let (median, worst) = (quantile(idle.clone(), 0.5), quantile(idle, 1.0));
        println!("{family:?}: last idle {median:.0} s after recovery, at worst {worst:.0} s");
        assert!(worst <= 420.0, "{family:?}: {worst} s");
    }
}

#[test]
fn random_kills_make_hardly_a_dead_letter() {
    let reports = reports(Family::RandomKills);
    let hours = reports.len() as f64 * 2.0;
    let dead: usize = reports.iter().map(|(_, report)| report.innocent_dead).sum();
    let mean = mean_throughput(&reports);
    println!("random kills: {dead} dead letters in {hours} h, throughput {mean:.3}");
    assert!(dead as f64 <= (hours / 100.0).ceil(), "{dead} in {hours} h");
    assert!(mean >= 0.95 || reports.len() < SCRIPTS_OF_A_MEAN, "{mean}");
}

#[test]
fn a_poison_record_is_isolated_and_no_innocent_dies() {
    let mut losses = Vec::new();
    for (script, report) in reports(Family::Poison) {
        assert_eq!(report.innocent_dead, 0, "{script:?}");
        losses.extend(report.isolated_after.map(f64::from));
    }
    let (median, most) = (quantile(losses.clone(), 0.5), quantile(losses.clone(), 0.9));
    println!("poison: {} isolated after {median} losses, nine of ten {most}", losses.len());
    assert!(median <= 8.0, "{median}");
    assert!(most <= 18.0, "{most}");
}

#[test]
fn two_poison_records_end_and_no_innocent_dies() {
    let reports = reports(Family::TwoPoisons);
    let is_ended = |(script, report): &&(Script, Report)| report.guilty_dead == script.poison.len();
    let ended = reports.iter().filter(is_ended).count();
    println!("two poison records: both ended in {ended} of {} scripts", reports.len());
    for (script, report) in &reports {
        assert_eq!(report.innocent_dead, 0, "{script:?}");
    }
    assert!(ended > 0);
}
