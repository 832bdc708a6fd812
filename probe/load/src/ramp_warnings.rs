//! What makes a saturation point doubtful, told at the end of a ramp.

use super::ramp_step::{Rest, Step};
use super::saturation::{CensoredRate, Saturation};
use ground::figures::{format_count, format_duration, format_rate, of_many};

/// Each says what was seen, and what it means or how to mend it.
pub fn list_warnings(steps: &[Step], saturation: &Saturation) -> Vec<String> {
    let end = warn_gone(steps, saturation).or_else(|| end_of_ramp(steps, saturation));
    let rest = not_at_rest(steps).into_iter().chain(not_asked(steps));
    rest.chain(end).collect()
}

/// Of steps that measured what was left of those before as well.
fn not_at_rest(steps: &[Step]) -> Option<String> {
    let left = |step: &Step| match step.rest {
        Some(Rest::NotCome(waited)) => Some((step.offered, waited)),
        _ => None,
    };
    let mut each = steps.iter().filter_map(left);
    let (offered, waited) = each.next()?;
    let others = match each.count() {
        0 => String::new(),
        others => {
            let others = format_count(others as u64);
            format!(", and {others} more {}", of_many(&others, "step", "steps"))
        }
    };
    Some(format!(
        "{} after the step at {}{others}, the server was still slower than before, perhaps by requests that were given up, or refused what it was asked: the next step measured that too, and the saturation may be too low; give a longer --timeout, or a smaller --step",
        format_duration(waited as f64),
        format_rate(offered),
    ))
}

/// Of a server of which nobody could say whether it was at rest.
fn not_asked(steps: &[Step]) -> Option<String> {
    let unknown = |step: &Step| match step.rest {
        Some(Rest::NotAsked(waited)) => Some((step.offered, waited)),
        _ => None,
    };
    let (offered, waited) = steps.iter().find_map(unknown)?;
    Some(format!(
        "for {} after the step at {} the generator could not ask the server whether it was at rest, perhaps because connections that were given up held all local ports or file descriptors: what the next step measured is doubtful; give a smaller --step",
        format_duration(waited as f64),
        format_rate(offered),
    ))
}

/// Where the ramp ended because no request was answered any more.
fn warn_gone(steps: &[Step], saturation: &Saturation) -> Option<String> {
    let last = steps.last()?;
    let Some(Rest::Gone(waited)) = last.rest else {
        return None;
    };
    let unknown = match saturation.rate {
        Some(known) => format!(
            "what it can serve beyond {} is not known",
            format_rate(known)
        ),
        None => "its saturation is not known".to_owned(),
    };
    Some(format!(
        "the server stopped answering at {} and gave no reply for {} after it, to single requests: the ramp ended there, and {unknown}; see whether it still runs, and if it was busy with requests that were given up, give a smaller --step or a longer --timeout",
        format_rate(last.offered),
        format_duration(waited as f64),
    ))
}

fn end_of_ramp(steps: &[Step], saturation: &Saturation) -> Option<String> {
    let gave_out = steps.last().filter(|step| step.generator_failed);
    match (gave_out, saturation.censored, saturation.interval[1]) {
        (Some(step), CensoredRate::Above, Some(upper)) => Some(format!(
            "{}, before the place was narrowed down: the saturation lies between {} and {}; {}",
            nothing_seen(step),
            format_rate(saturation.rate.unwrap_or(0.0)),
            format_rate(upper),
            choose_remedy(step),
        )),
        (Some(step), CensoredRate::Above, None) => Some(format!(
            "{}, {}; {}",
            nothing_seen(step),
            match steps.iter().find(|one| is_failure_of_server(one, saturation)) {
                None => "before the server was saturated".to_owned(),
                Some(one) => format!(
                    "before it was clear whether the server keeps up with {}, which it did not in one attempt",
                    format_rate(one.offered)
                ),
            },
            choose_remedy(step),
        )),
        (None, CensoredRate::Above, _) => {
            let last = steps.last().map_or_else(String::new, |step| format!(", {}", format_rate(step.offered)));
            Some(format!(
                "the server kept up to the end of the ramp; its saturation lies above the last rate{last}"
            ))
        }
        (_, CensoredRate::Below, None) => Some(
            "the server kept up with the first rate in one attempt of three; its saturation lies about --from: begin lower"
                .into(),
        ),
        (_, CensoredRate::Below, Some(_)) if steps.iter().all(|step| step.too_many_errors) => Some(
            "more requests than --max-errors failed at the first rate, or got an error page: unless its load is why, the server's saturation is not known"
                .into(),
        ),
        (_, CensoredRate::Below, Some(_)) => Some(
            "the server did not keep up with the first rate; its saturation lies below --from"
                .into(),
        ),
        (_, CensoredRate::None | CensoredRate::Interrupted, _) => None,
    }
}

/// Whether the server failed in this step, and has kept up with no rate as high.
fn is_failure_of_server(step: &Step, saturation: &Saturation) -> bool {
    let failed = !step.kept_up && !step.generator_failed && step.requests > 0;
    failed && saturation.rate.is_none_or(|rate| step.offered > rate)
}

/// Of a step that the generator failed in, or had no request.
fn nothing_seen(step: &Step) -> String {
    match step.requests {
        0 => format!("no request was due at {}", format_rate(step.offered)),
        _ => format!("the generator gave out at {}", format_rate(step.offered)),
    }
}

fn choose_remedy(step: &Step) -> &str {
    match (step.requests, &step.shortage) {
        (0, _) => "give a longer --per-step",
        (_, Some(shortage)) => shortage,
        _ => "give more --threads or clients",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::clock::SECOND;

    /// At 100 a second.
    fn failed_step() -> Step {
        Step {
            offered: 100.0,
            requests: 100,
            ..Step::default()
        }
    }

    fn sample_saturation(
        rate: Option<f64>,
        interval: [Option<f64>; 2],
        censored: CensoredRate,
    ) -> Saturation {
        Saturation {
            rate,
            interval,
            censored,
        }
    }

    #[test]
    fn a_generator_that_gave_out_names_what_it_lacked() {
        let mut unknown = sample_saturation(None, [None, None], CensoredRate::Above);
        let mut step = Step {
            generator_failed: true,
            ..failed_step()
        };
        let told = |step: &Step, found: &Saturation| {
            list_warnings(std::slice::from_ref(step), found).concat()
        };
        assert!(told(&step, &unknown).ends_with("; give more --threads or clients"));
        step.shortage = Some("no local port was left; keep connections".into());
        assert!(told(&step, &unknown).ends_with("; no local port was left; keep connections"));
        unknown.interval[1] = Some(200.0);
        assert!(told(&step, &unknown).ends_with("; no local port was left; keep connections"));
        step.requests = 0;
        for upper in [None, Some(200.0)] {
            unknown.interval[1] = upper;
            let told = told(&step, &unknown);
            assert!(told.starts_with("no request was due at 100/s, "), "{told}");
            assert!(told.ends_with("; give a longer --per-step"), "{told}");
        }
    }

    #[test]
    fn a_server_that_did_not_come_to_rest_or_was_gone_is_told() {
        let found = sample_saturation(Some(100.0), [Some(100.0), Some(200.0)], CensoredRate::Above);
        let step = |offered, rest| Step {
            offered,
            rest: Some(rest),
            ..failed_step()
        };
        let slow = Rest::NotCome(10 * SECOND);
        let steps = [
            step(300.0, slow),
            step(250.0, Rest::Come),
            step(200.0, slow),
            step(200.0, Rest::Gone(20 * SECOND)),
        ];
        let told = list_warnings(&steps, &found);
        let [at_rest, gone] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(at_rest.starts_with("10 s after the step at 300/s, and 1 more step, the server"));
        assert!(
            gone.starts_with("the server stopped answering at 200/s and gave no reply for 20 s")
        );
        assert!(gone.contains("what it can serve beyond 100/s is not known"));
        let unknown = sample_saturation(None, [None, Some(200.0)], CensoredRate::Below);
        let told = list_warnings(&[step(200.0, Rest::Gone(20 * SECOND))], &unknown).concat();
        assert!(told.contains("its saturation is not known"), "{told}");
    }

    #[test]
    fn a_server_that_could_not_be_asked_is_not_told_to_be_slow() {
        let found = sample_saturation(Some(20.0), [Some(20.0), None], CensoredRate::Above);
        let failed = Step {
            rest: Some(Rest::NotAsked(10 * SECOND)),
            too_many_errors: true,
            ..failed_step()
        };
        let gave_out = Step {
            generator_failed: true,
            ..failed_step()
        };
        let told = list_warnings(&[failed, gave_out.clone(), gave_out.clone()], &found);
        let [asked, end] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(asked.starts_with("for 10 s after the step at 100/s the generator could not ask"));
        assert!(end.contains("whether the server keeps up with 100/s, which it did not in one"));
        let end = list_warnings(&[gave_out.clone(), gave_out], &found).concat();
        assert!(end.contains("before the server was saturated"), "{end}");
    }

    #[test]
    fn a_first_rate_that_errors_ended_says_nothing_of_what_the_server_can_do() {
        let below = sample_saturation(None, [None, Some(100.0)], CensoredRate::Below);
        let step = |too_many_errors| Step {
            too_many_errors,
            ..failed_step()
        };
        let told = |steps: &[Step]| list_warnings(steps, &below).concat();
        assert!(told(&[step(true), step(true)]).ends_with("saturation is not known"));
        assert!(told(&[step(true), step(false)]).starts_with("the server did not keep up"));
    }
}
