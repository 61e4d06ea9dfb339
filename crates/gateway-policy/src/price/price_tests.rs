//! Costs of everything that is sold: examples, and the properties of the arithmetic.

use proptest::prelude::*;

use super::*;

/// 1.25 USD per million tokens of input, 10 of output.
const RATES: Rates = Rates {
    input: 1_250_000,
    cached_input: 125_000,
    cache_write: 1_562_500,
    cache_write_1h: 2_500_000,
    output: 10_000_000,
    input_audio: 40_000_000,
    input_image: 5_000_000,
    output_audio: 80_000_000,
    output_image: 30_000_000,
};

fn twice(rates: &Rates) -> Rates {
    Rates {
        input: 2 * rates.input,
        cached_input: 2 * rates.cached_input,
        cache_write: 2 * rates.cache_write,
        cache_write_1h: 2 * rates.cache_write_1h,
        output: 2 * rates.output,
        input_audio: 2 * rates.input_audio,
        input_image: 2 * rates.input_image,
        output_audio: 2 * rates.output_audio,
        output_image: 2 * rates.output_image,
    }
}

fn unit(size: Option<&str>, quality: Option<&str>, price: u64) -> UnitPrice {
    UnitPrice { size: size.map(Into::into), quality: quality.map(Into::into), price }
}

/// With a long context from 1000 tokens on, and the tiers `flex` and `priority`.
fn tokens() -> Price {
    let long = Some(twice(&RATES));
    let half = Rates { input: 625_000, output: 5_000_000, ..Rates::default() };
    let flex = TokenPrices { short: half, long: Some(RATES) };
    let priority = TokenPrices { short: twice(&RATES), long: Some(twice(&twice(&RATES))) };
    Price {
        tokens: TokenPrices { short: RATES, long },
        tiers: vec![("flex".into(), flex), ("priority".into(), priority)],
        long_above: Some(1000),
        ..Price::from(RATES)
    }
}

fn of_kind(sells: Sells) -> Asked {
    Asked { sells, ..Asked::default() }
}

fn in_tier(name: &str) -> Asked {
    Asked { tier: Some(name.into()), ..Asked::default() }
}

fn reported_in(tier: &str) -> Reported {
    Reported { tier: Some(tier.into()), ..Reported::default() }
}

#[test]
fn every_kind_of_token_has_its_price() {
    let used = |used: Quantities| {
        Price::from(RATES).cost_of(&used, &Asked::default(), &Reported::default())
    };
    let of = Quantities::of_tokens;
    assert_eq!(used(of(8, 1)), 20);
    assert_eq!(used(Quantities { cached: 800, ..of(1000, 0) }), 250 + 100);
    assert_eq!(used(Quantities { cache_write: 800, ..of(1000, 0) }), 250 + 1250);
    assert_eq!(used(Quantities { cache_write_1h: 800, ..of(1000, 0) }), 250 + 2000);
    assert_eq!(used(Quantities { input_audio: 100, input_image: 100, ..of(1000, 0) }), 5500);
    assert_eq!(used(Quantities { output_audio: 10, output_image: 10, ..of(0, 100) }), 1900);
    // Parts that are larger than the whole.
    assert_eq!(used(Quantities { cached: 9, cache_write: 9, input_audio: 9, ..of(8, 0) }), 1);
    assert_eq!(used(Quantities { output_audio: u64::MAX, ..of(0, 1) }), 80);
    assert_eq!(used(of(u64::MAX, u64::MAX)), u64::MAX);
}

#[test]
fn a_long_context_is_decided_by_the_real_input() {
    let price = tokens();
    let standard = in_tier("default");
    let cost =
        |input| price.cost_of(&Quantities::of_tokens(input, 100), &standard, &Reported::default());
    assert_eq!((cost(1000), cost(1001)), (1250 + 1000, 2503 + 2000));
    let most = |input| price.most(&Quantities::of_tokens(input, 100), &standard);
    assert_eq!((most(1000), most(1001)), (cost(1000), cost(1001)));
    let all = (Quantities::of_tokens(500, 0), Quantities::of_tokens(2000, 100));
    assert_eq!(price.most_with_input(&all.0, &all.1, &standard), 625 + 1000);
}

#[test]
fn the_service_tier_that_the_answer_tells_is_charged_if_it_was_possible() {
    let price = tokens();
    let used = Quantities::of_tokens(800, 0);
    for (asked, reported, expected) in [
        (None, None, 1000),
        (None, Some("priority"), 2000),
        (None, Some("fast"), 2000),
        (None, Some("flex"), 500),
        (None, Some("standard"), 1000),
        (None, Some("unheard-of"), 2000),
        (Some("priority"), None, 2000),
        (Some("fast"), Some("default"), 1000),
        (Some("flex"), Some("flex"), 500),
        (Some("flex"), None, 500),
        // It was not asked for: the dearest of those that were possible.
        (Some("flex"), Some("priority"), 1000),
        (Some("standard_only"), Some("priority"), 1000),
    ] {
        let request = asked.map_or_else(Asked::default, in_tier);
        let tells = reported.map(reported_in).unwrap_or_default();
        let cost = price.cost_of(&used, &request, &tells);
        assert_eq!(cost, expected, "{asked:?} {reported:?}");
        assert!(price.most(&used, &request) >= cost);
    }
}

#[test]
fn images_cost_by_size_and_quality() {
    let price = Price {
        images: vec![
            unit(None, None, 70),
            unit(Some("small"), None, 40),
            unit(Some("small"), Some("high"), 50),
            unit(Some("large"), Some("high"), 90),
        ],
        ..Price::from(Rates { input: 1_000_000, output: 9_000_000, ..Rates::default() })
    };
    for (asked, reported, expected) in [
        ((Some("small"), Some("high")), (None, None), 50),
        ((Some("small"), Some("low")), (None, None), 40),
        ((Some("large"), Some("low")), (None, None), 70),
        ((Some("other"), Some("low")), (None, None), 70),
        // The server decides: the dearest, until it tells.
        ((None, None), (None, None), 90),
        ((None, None), (Some("small"), Some("low")), 40),
        ((Some("small"), None), (None, None), 50),
        ((Some("other"), None), (None, None), 70),
        ((Some("small"), None), (None, Some("high")), 50),
        // What was asked for counts more than what is reported.
        ((Some("small"), Some("high")), (Some("large"), Some("high")), 50),
    ] {
        let text = |text: Option<&str>| text.map(Into::into);
        let request =
            Asked { size: text(asked.0), quality: text(asked.1), ..of_kind(Sells::Images) };
        let reported =
            Reported { size: text(reported.0), quality: text(reported.1), ..Reported::default() };
        let used = Quantities { images: 3, ..Quantities::of_tokens(100, 1000) };
        let cost = price.cost_of(&used, &request, &reported);
        assert_eq!(cost, 100 + 3 * expected, "{asked:?} {reported:?}");
        assert!(price.most(&used, &request) >= cost, "{asked:?} {reported:?}");
    }
    // Texts of the same model cost their tokens.
    let used = Quantities { images: 3, ..Quantities::of_tokens(100, 1000) };
    assert_eq!(price.cost_of(&used, &Asked::default(), &Reported::default()), 9100);
}

#[test]
fn minutes_seconds_calls_and_requests_cost() {
    let price = Price {
        request: Some(7),
        audio_minute: Some(6000),
        videos: vec![unit(Some("large"), None, 300_000), unit(None, None, 100_000)],
        calls: [Some(10_000), Some(2500), None, None],
        ..Price::default()
    };
    let cost = |used, asked: &Asked| price.cost_of(&used, asked, &Reported::default());
    let audio =
        |milliseconds| Quantities { audio_milliseconds: milliseconds, ..Quantities::default() };
    let hears = of_kind(Sells::Audio);
    assert_eq!(cost(audio(0), &hears), 7);
    assert_eq!(cost(audio(60_000), &hears), 6007);
    assert_eq!(cost(audio(1), &hears), 8, "a tenth of a micro-dollar, rounded up");
    let video = Quantities { video_milliseconds: 8000, ..Quantities::default() };
    let large = Asked { size: Some("large".into()), ..of_kind(Sells::Video) };
    assert_eq!(cost(video, &large), 2_400_007);
    let other = Asked { size: Some("1x1".into()), ..of_kind(Sells::Video) };
    assert_eq!(cost(video, &other), 800_007);
    let calls = Quantities { calls: [2, 3, 5, 5], ..Quantities::default() };
    assert_eq!(cost(calls, &Asked::default()), 7 + 20_000 + 7500);
    let huge = Quantities {
        calls: [u64::MAX; 4],
        audio_milliseconds: u64::MAX,
        video_milliseconds: u64::MAX,
        ..Quantities::of_tokens(u64::MAX, u64::MAX)
    };
    assert_eq!(cost(huge, &large), u64::MAX);
}

#[test]
fn a_job_costs_by_what_it_trains() {
    let price = Price { training: Some(3_000_000), ..tokens() };
    let asked = Asked { trained_tokens: 5000, ..of_kind(Sells::Training) };
    let trained = |trained| Quantities { trained, ..Quantities::default() };
    let cost = |used: &Quantities| price.cost_of(used, &asked, &Reported::default());
    assert_eq!([cost(&trained(0)), cost(&trained(1)), cost(&trained(1000))], [0, 3, 3000]);
    assert_eq!(price.most(&trained(5000), &asked), 15_000);
    assert_eq!(cost(&trained(u64::MAX)), u64::MAX);
    let none = [false; TOOLS.len()];
    assert_eq!(price.missing(&asked, &none), None);
    assert_eq!(tokens().missing(&asked, &none).as_deref(), Some("training"));
}

#[test]
fn what_has_no_price_is_named() {
    let text = tokens();
    let none = [false; TOOLS.len()];
    let large = |sells| Asked { size: Some("large".into()), ..of_kind(sells) };
    let small = vec![unit(Some("small"), None, 5)];
    let input = Price { sells_input: true, ..Price::default() };
    for (price, request, calls, expected) in [
        (&text, Asked::default(), none, None),
        (&text, Asked::default(), [true, false, false, false], Some("tool_calls.web_search")),
        (&text, in_tier("priority"), none, None),
        (&text, in_tier("auto"), none, Some("service_tiers.auto")),
        (&text, in_tier("scale"), none, Some("service_tiers.scale")),
        (&text, in_tier("standard_only"), none, None),
        (&text, of_kind(Sells::Images), none, None),
        (&text, of_kind(Sells::Video), none, None),
        (&input, of_kind(Sells::Input), none, None),
        (&input, Asked::default(), none, Some("output")),
        (&input, of_kind(Sells::Speech), none, Some("output")),
        (&input, of_kind(Sells::Audio), none, Some("audio_minute")),
        (&input, of_kind(Sells::Images), none, Some("image")),
        (&input, of_kind(Sells::Video), none, Some("video_second")),
        (&Price { request: Some(0), ..Price::default() }, Asked::default(), none, None),
        (&Price { request: Some(1), ..input.clone() }, Asked::default(), none, Some("output")),
        (
            &Price { images: small.clone(), ..text.clone() },
            large(Sells::Images),
            none,
            Some("image"),
        ),
        (&Price { videos: small, ..text.clone() }, large(Sells::Video), none, Some("video_second")),
    ] {
        assert_eq!(price.missing(&request, &calls).as_deref(), expected, "{request:?}");
    }
}

#[test]
fn a_price_is_the_same_after_it_was_stored() {
    let price = Price { images: vec![unit(Some("small"), None, 5)], request: Some(3), ..tokens() };
    let text = serde_json::to_string(&price).unwrap();
    assert_eq!(serde_json::from_str::<Price>(&text).unwrap(), price);
    // Of an earlier version, with fewer members.
    let early = r#"{"tokens":{"short":{"input":5,"output":7}}}"#;
    let rates = serde_json::from_str::<Price>(early).unwrap().tokens.short;
    assert_eq!((rates.input, rates.output, rates.input_audio), (5, 7, 0));
}

fn any_rates() -> impl Strategy<Value = Rates> {
    any::<[u32; 9]>().prop_map(|all| {
        let [input, cached_input, cache_write, cache_write_1h, output, a, b, c, d] =
            all.map(u64::from);
        Rates {
            input,
            cached_input,
            cache_write,
            cache_write_1h,
            output,
            input_audio: a,
            input_image: b,
            output_audio: c,
            output_image: d,
        }
    })
}

fn any_tokens() -> impl Strategy<Value = TokenPrices> {
    (any_rates(), any::<bool>()).prop_map(|(short, has_long)| {
        // A long context costs at least as much, as the configuration ensures.
        TokenPrices { short, long: has_long.then(|| twice(&short)) }
    })
}

fn any_units() -> impl Strategy<Value = Vec<UnitPrice>> {
    let name = || prop::option::of(prop::sample::select(vec!["a", "b", "c"]));
    let one = (name(), name(), 0_u64..1_000_000);
    prop::collection::vec(one.prop_map(|(size, quality, price)| unit(size, quality, price)), 0..5)
}

fn any_price() -> impl Strategy<Value = Price> {
    let tiers = (any_tokens(), any_tokens());
    let money = || prop::option::of(0_u64..1_000_000_000);
    (
        any_tokens(),
        tiers,
        any_units(),
        any_units(),
        money(),
        money(),
        [money(), money(), money(), money()],
    )
        .prop_map(
            |(tokens, (flex, priority), images, videos, request, audio_minute, calls)| Price {
                tokens,
                tiers: vec![("flex".into(), flex), ("priority".into(), priority)],
                long_above: Some(5000),
                sells_input: true,
                sells_output: true,
                request,
                images,
                audio_minute,
                videos,
                training: request,
                calls,
            },
        )
}

fn any_asked() -> impl Strategy<Value = Asked> {
    let sells = prop::sample::select(vec![
        Sells::Text,
        Sells::Input,
        Sells::Images,
        Sells::Speech,
        Sells::Audio,
        Sells::Video,
        Sells::Training,
    ]);
    let tier = prop::option::of(prop::sample::select(vec!["default", "flex", "priority", "x"]));
    let name = || prop::option::of(prop::sample::select(vec!["a", "b", "z"]));
    (sells, tier, name(), name(), any::<[bool; 3]>()).prop_map(
        |(sells, tier, size, quality, [marks_cache, marks_hour, has_audio])| Asked {
            sells,
            tier: tier.map(Into::into),
            size: size.map(Into::into),
            quality: quality.map(Into::into),
            marks_cache: marks_cache || marks_hour,
            marks_hour,
            has_audio,
            ..Asked::default()
        },
    )
}

fn any_reported() -> impl Strategy<Value = Reported> {
    let tier = prop::option::of(prop::sample::select(vec!["standard", "flex", "fast", "?"]));
    let name = || prop::option::of(prop::sample::select(vec!["a", "b", "q"]));
    (tier, name(), name()).prop_map(|(tier, size, quality)| Reported {
        tier: tier.map(Into::into),
        size: size.map(Into::into),
        quality: quality.map(Into::into),
    })
}

/// Of kinds of tokens that the request allows.
fn used(
    asked: &Asked,
    parts: [u64; 6],
    sums: [u64; 2],
    calls: [u64; 4],
    units: [u64; 3],
) -> Quantities {
    let [cached, write, write_1h, audio, image, drawn] = parts;
    let hears = asked.has_audio || matches!(asked.sells, Sells::Audio | Sells::Speech);
    let draws = asked.sells == Sells::Images;
    let if_so = |is_so: bool, count: u64| if is_so { count } else { 0 };
    Quantities {
        input: sums[0],
        cached,
        cache_write: if_so(asked.marks_cache, write),
        cache_write_1h: if_so(asked.marks_hour, write_1h),
        input_audio: if_so(hears, audio),
        input_image: if_so(draws, image),
        output: sums[1],
        output_audio: if_so(hears, audio),
        output_image: if_so(draws, drawn),
        calls,
        images: units[0],
        audio_milliseconds: units[1],
        video_milliseconds: units[2],
        trained: units[0],
    }
}

fn any_used() -> impl Strategy<Value = ([u64; 6], [u64; 2], [u64; 4], [u64; 3])> {
    let part = || 0_u64..4000;
    (
        [part(), part(), part(), part(), part(), part()],
        [0_u64..10_000, 0_u64..10_000],
        [0_u64..5, 0_u64..5, 0_u64..5, 0_u64..5],
        [0_u64..20, 0_u64..9_000_000, 0_u64..90_000],
    )
}

proptest! {
    /// Nothing that stays within what was reserved costs more than that, whatever the answer tells.
    #[test]
    fn the_reservation_is_enough(
        price in any_price(), asked in any_asked(), reported in any_reported(),
        (parts, sums, calls, units) in any_used(), more in any::<[u8; 9]>(),
    ) {
        let used = used(&asked, parts, sums, calls, units);
        let bound = Quantities {
            calls: std::array::from_fn(|tool| used.calls[tool] + u64::from(more[tool])),
            images: used.images + u64::from(more[4]),
            audio_milliseconds: used.audio_milliseconds + u64::from(more[5]),
            video_milliseconds: used.video_milliseconds + u64::from(more[6]),
            trained: used.trained + u64::from(more[4]),
            ..Quantities::of_tokens(
                used.input + u64::from(more[7]) * 20,
                used.output + u64::from(more[8]) * 20,
            )
        };
        let (cost, most) = (price.cost_of(&used, &asked, &reported), price.most(&bound, &asked));
        prop_assert!(cost <= most, "{cost} of {most}");
        let still = price.most_with_input(&used, &bound, &asked);
        prop_assert!(cost <= still, "{cost}, and still up to {still}");
    }

    /// Each part costs at most the whole, the parts together at most their own roundings more, and more of anything costs no
    /// less.
    #[test]
    fn parts_add_up_and_more_costs_no_less(
        price in any_price(), asked in any_asked(), reported in any_reported(),
        (parts, sums, calls, units) in any_used(), more in any::<[u16; 2]>(),
    ) {
        let used = used(&asked, parts, sums, calls, units);
        let cost = |used: &Quantities| price.cost_of(used, &asked, &reported);
        let whole = cost(&used);
        let of_output = Quantities { input: 0, calls: [0; 4], images: 0, audio_milliseconds: 0, video_milliseconds: 0, ..used };
        let of_units = Quantities { input: 0, output: 0, ..used };
        let of_calls = Quantities { calls, ..Quantities::default() };
        for part in [of_output, of_units, of_calls] {
            prop_assert!(cost(&part) <= whole);
        }
        let longer = Quantities {
            input: used.input + u64::from(more[0]),
            output: used.output + u64::from(more[1]),
            ..used
        };
        // More input is plain: its kinds stay as they are, while they fit.
        let fits = parts.iter().take(5).sum::<u64>() <= used.input && parts.iter().skip(3).sum::<u64>() <= used.output;
        if fits {
            prop_assert!(whole <= cost(&longer));
        }
        let further = Quantities { images: used.images + 1, calls: calls.map(|count| count + 1), ..used };
        prop_assert!(whole <= cost(&further));
    }

    /// The cost is the exact sum, rounded up once.
    #[test]
    fn the_sum_is_exact(input in any::<u32>(), output in any::<u32>(), rates in any_rates()) {
        let exact = u128::from(input) * u128::from(rates.input) + u128::from(output) * u128::from(rates.output);
        let cost = Price::from(rates).cost_of(
            &Quantities::of_tokens(input.into(), output.into()), &Asked::default(), &Reported::default(),
        );
        prop_assert_eq!(u128::from(cost), exact.div_ceil(1_000_000));
    }
}
