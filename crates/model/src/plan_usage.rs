//! The used share of an account's plan, as services with plans report it: in headers
//! (`x-<limit>-primary-used-percent`, …) and in events whose type ends with `.rate_limits`. Values
//! of other types or forms count as absent, because no response needs them.

use hyper::HeaderMap;
use serde_json::Value;

use crate::printable::printable;

/// The used share of a plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanUsage {
    /// The limit's identifier.
    pub limit: Option<String>,
    /// The limit's name for users.
    pub name: Option<String>,
    /// The plan, as the service names it.
    pub plan: Option<String>,
    pub primary: Option<PlanWindow>,
    pub secondary: Option<PlanWindow>,
    pub credits: Option<Credits>,
    /// Which limit blocks the account, as the service names it.
    pub reached: Option<String>,
}

/// The use of a plan within a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanWindow {
    pub used_percent: f64,
    pub minutes: Option<i64>,
    /// Unix time in seconds.
    pub resets_at: Option<i64>,
}

/// The credits of an account beyond its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credits {
    pub has_credits: bool,
    pub unlimited: bool,
    pub balance: Option<String>,
}

impl PlanUsage {
    /// Reads the headers of one limit: of several, that with the shortest name. `None` without any.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let prefix = headers
            .keys()
            .filter_map(|name| {
                let name = name.as_str().strip_prefix("x-")?;
                let limit = name.strip_suffix("-primary-used-percent");
                let limit = limit.or_else(|| name.strip_suffix("-secondary-used-percent"));
                limit.or_else(|| name.strip_suffix("-credits-has-credits"))
            })
            .filter(|limit| !limit.is_empty())
            .min_by_key(|limit| (limit.len(), *limit))?;
        let text = |name: &str| headers.get(format!("x-{prefix}-{name}"))?.to_str().ok();
        let number = |name: String| text(&name)?.trim().parse().ok();
        let window = |name: &str| {
            let used_percent = text(&format!("{name}-used-percent"))?.trim().parse().ok()?;
            Some(PlanWindow {
                used_percent: percent(used_percent)?,
                minutes: number(format!("{name}-window-minutes")),
                resets_at: number(format!("{name}-reset-at")),
            })
        };
        let flag = |name: &str| text(name)?.trim().to_ascii_lowercase().parse().ok();
        let credits = flag("credits-has-credits").map(|has_credits| Credits {
            has_credits,
            unlimited: flag("credits-unlimited").unwrap_or(false),
            balance: text("credits-balance").and_then(printable),
        });
        let usage = Self {
            limit: printable(prefix),
            name: text("limit-name").and_then(printable),
            plan: text("plan-type").and_then(printable),
            primary: window("primary"),
            secondary: window("secondary"),
            credits,
            reached: text("rate-limit-reached-type").and_then(printable),
        };
        usage.has_content().then_some(usage)
    }

    /// Reads the members of an event of a stream.
    pub(crate) fn of_event(event: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().and_then(printable);
        let window = |name: &str| {
            let window = &event["rate_limits"][name];
            Some(PlanWindow {
                used_percent: percent(window["used_percent"].as_f64()?)?,
                minutes: window["window_minutes"].as_i64(),
                resets_at: window["reset_at"].as_i64(),
            })
        };
        let credits = &event["credits"];
        let credits = credits["has_credits"].as_bool().map(|has_credits| Credits {
            has_credits,
            unlimited: credits["unlimited"].as_bool().unwrap_or(false),
            balance: text(&credits["balance"]),
        });
        let usage = Self {
            limit: text(&event["metered_limit_name"]),
            name: text(&event["limit_name"]),
            plan: text(&event["plan_type"]),
            primary: window("primary"),
            secondary: window("secondary"),
            credits,
            reached: text(&event["rate_limit_reached_type"]),
        };
        usage.has_content().then_some(usage)
    }

    fn has_content(&self) -> bool {
        self.primary.is_some() || self.secondary.is_some() || self.credits.is_some()
    }
}

/// A share of a limit; more than all of it is possible, less than nothing is not.
fn percent(number: f64) -> Option<f64> {
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name: hyper::header::HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn headers_and_events_of_a_plan_mean_the_same() {
        let from_headers = PlanUsage::read(&headers(&[
            ("x-house-primary-used-percent", "42.5"),
            ("x-house-primary-window-minutes", "300"),
            ("x-house-primary-reset-at", "1760000000"),
            ("x-house-secondary-used-percent", "7"),
            ("x-house-credits-has-credits", "True"),
            ("x-house-credits-unlimited", "false"),
            ("x-house-credits-balance", "12.50"),
            ("x-house-limit-name", "Weekly"),
            ("x-house-plan-type", "pro"),
            ("x-house-rate-limit-reached-type", "rate_limit_reached"),
            ("x-house-other-primary-used-percent", "99"),
        ]));
        let event = json!({ "type": "house.rate_limits", "plan_type": "pro", "limit_name": "Weekly",
            "metered_limit_name": "house", "rate_limit_reached_type": "rate_limit_reached",
            "rate_limits": {
                "primary": { "used_percent": 42.5, "window_minutes": 300, "reset_at": 1_760_000_000 },
                "secondary": { "used_percent": 7 } },
            "credits": { "has_credits": true, "unlimited": false, "balance": "12.50" } });
        let expected = PlanUsage {
            limit: Some("house".into()),
            name: Some("Weekly".into()),
            plan: Some("pro".into()),
            primary: Some(PlanWindow {
                used_percent: 42.5,
                minutes: Some(300),
                resets_at: Some(1_760_000_000),
            }),
            secondary: Some(PlanWindow { used_percent: 7.0, minutes: None, resets_at: None }),
            credits: Some(Credits {
                has_credits: true,
                unlimited: false,
                balance: Some("12.50".into()),
            }),
            reached: Some("rate_limit_reached".into()),
        };
        assert_eq!(from_headers, Some(expected.clone()));
        assert_eq!(PlanUsage::of_event(&event), Some(expected));
    }

    #[test]
    fn senseless_values_are_absent() {
        let check = |name: &str, value: &str| {
            assert_eq!(PlanUsage::read(&headers(&[(name, value)])), None, "{name}: {value}");
        };
        check("x-house-primary-used-percent", "-1");
        check("x-house-primary-used-percent", "NaN");
        check("x-house-primary-used-percent", "much");
        check("x--primary-used-percent", "5");
        check("x-house-credits-has-credits", "perhaps");
        check("x-house-primary-window-minutes", "300");
        for event in [json!({}), json!([]), json!({ "rate_limits": 5, "credits": [true] })] {
            assert_eq!(PlanUsage::of_event(&event), None, "{event}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_a_panic(name in "x-[a-z-]{0,40}", value in "[ -~]{0,24}") {
            let _ = PlanUsage::read(&headers(&[
                (&name, &value),
                ("x-a-primary-used-percent", &value),
            ]));
        }
    }
}
