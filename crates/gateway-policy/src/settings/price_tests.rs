//! Prices as written in the file, and their mistakes.

use std::path::Path;

use proptest::prelude::*;

use crate::price::{Asked, Price, Quantities, Rates, Reported, Sells};
use crate::settings::{Error, LoadContext, Settings};

fn read(text: &str) -> Result<Settings, Error> {
    let around = LoadContext {
        environment: &|_| None,
        folder: Path::new("/x"),
        offline: "http://127.0.0.1:9/v1",
    };
    Settings::read(text, Path::new("g.toml"), around)
}

/// The price of the model `a` with these lines.
fn price(lines: &str, now: u64, batch: bool) -> Price {
    let settings = read(&format!("[models.a]\n{lines}")).unwrap();
    let model = settings.catalog.find("a").unwrap();
    Price::clone(model.price_at(now, batch).unwrap())
}

fn input(price: &Price) -> u64 {
    price.tokens.short.input
}

const FULL: &str = r#"
long_context_tokens = 1000
[models.a.price]
input = 2
cached_input = "free"
output = 8.5
input_audio = 40
long_context = { input = 4.0, cached_input = "free", output = 12.75, input_audio = 40 }
request = 0.001
image = [{ usd = 0.02 }, { size = "1024x1024", quality = "high", usd = 0.167 }]
audio_minute = 0.006
video_second = 0.1
web_search = 0.01
tool_calls = { file_search = 0.0025 }
service_tiers = { fast = 2, flex = { input = 1, output = 4.25, long_context = { input = 2, output = 6 } }, batch = 0.5 }
"#;

#[test]
fn a_whole_price() {
    let full = price(FULL, 0, false);
    let expected = Rates {
        input: 2_000_000,
        cached_input: 0,
        cache_write: 2_500_000,
        cache_write_1h: 4_000_000,
        output: 8_500_000,
        input_audio: 40_000_000,
        input_image: 2_000_000,
        output_audio: 8_500_000,
        output_image: 8_500_000,
    };
    assert_eq!(full.tokens.short, expected);
    assert_eq!(full.tokens.long.unwrap().output, 12_750_000);
    assert_eq!((full.request, full.audio_minute), (Some(1000), Some(6000)));
    assert_eq!(full.calls, [Some(10_000), Some(2500), None, None]);
    assert_eq!((full.images[0].price, full.images[1].price), (20_000, 167_000));
    assert_eq!(full.videos[0].price, 100_000);
    let names: Vec<_> = full.tiers.iter().map(|(name, tier)| (&**name, tier.short.input)).collect();
    assert_eq!(names, [("priority", 4_000_000), ("flex", 1_000_000)]);
    let batch = price(FULL, 0, true);
    assert_eq!((input(&batch), batch.tiers.len(), batch.request), (1_000_000, 0, Some(1000)));
    let images = Asked { sells: Sells::Images, ..Asked::default() };
    let used = Quantities { images: 1, ..Quantities::default() };
    assert_eq!(full.cost_of(&used, &images, &Reported::default()), 168_000, "with the request");
}

#[test]
fn prices_hold_from_their_dates_on() {
    let lines = "prices = [{ from = \"2026-09-01\", input = 1, output = 1 }, \
                 { from = \"2026-10-01\", input = 2, output = 2, service_tiers = { batch = 0.5 } }]";
    let settings = read(&format!("[models.a]\n{lines}")).unwrap();
    let model = settings.catalog.find("a").unwrap();
    let of = |now: u64, batch| model.price_at(now, batch).map(|price| input(price));
    let (september, october) = (1_788_220_800_000_000, 1_790_812_800_000_000);
    assert_eq!(of(september - 1, false), None, "before the first date there is no price");
    assert_eq!(of(september, false), Some(1_000_000));
    assert_eq!(of(october - 1, true), Some(1_000_000));
    assert_eq!((of(october, false), of(october, true)), (Some(2_000_000), Some(1_000_000)));
    // One without a date holds before the first.
    let both = format!("price = {{ input = 3, output = 3 }}\n{lines}");
    assert_eq!(input(&price(&both, september - 1, false)), 3_000_000);
    assert_eq!(input(&price(&both, september, false)), 1_000_000);
}

/// The lines of a model are refused in one line that contains `expected`.
#[track_caller]
fn check(lines: &str, expected: &str) {
    let error = read(&format!("[models.a]\n{lines}")).unwrap_err().to_string();
    assert!(error.starts_with("g.toml:") && error.contains(expected), "{lines}: {error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn amounts_that_are_none_name_their_place() {
    for (value, why) in [
        ("0", "0 is not a price: write \"free\""),
        ("0.0", "0 is not a price"),
        ("-1", "-1 is not a valid price"),
        ("-0.5", "-0.5 is not a valid price"),
        ("1000001", "1000001 is not a valid price"),
        ("1e300", "is not a valid price"),
        ("nan", "NaN is not a valid price"),
        ("inf", "inf is not a valid price"),
        ("0.0000001", "is not a valid price"),
        ("\"1.25\"", "must be an amount in USD"),
        ("\"Free\"", "must be an amount in USD"),
        ("true", "must be an amount in USD"),
        ("[1]", "must be an amount in USD"),
        ("2026-01-01", "must be an amount in USD"),
    ] {
        for member in
            ["input", "cache_write", "output_audio", "request", "audio_minute", "web_search"]
        {
            check(
                &format!("price = {{ {member} = {value} }}"),
                &format!("models.a.price.{member}: "),
            );
            check(&format!("price = {{ {member} = {value} }}"), why);
        }
        let call = format!("price = {{ input = 1, tool_calls = {{ web_search = {value} }} }}");
        check(&call, "models.a.price.tool_calls.web_search: ");
        check(
            &format!("price = {{ image = [{{ usd = {value} }}] }}"),
            "models.a.price.image.usd: ",
        );
    }
}

#[test]
fn mistakes_name_their_place() {
    for (lines, expected) in [
        ("price = 5", "models.a.price: must be a table"),
        ("price = {}", "models.a.price: has no price"),
        ("price = { web_search = 1 }", "models.a.price: has no price"),
        ("price = { inputs = 1 }", "models.a.price.inputs: is not known here; known are input,"),
        ("price = { from = '2026-01-01', input = 1 }", "belongs into an entry of `prices`"),
        ("price = { image = [] }", "models.a.price.image: must have 1 to"),
        ("price = { image = [{ size = 'x' }] }", "models.a.price.image.usd: is missing"),
        (
            "price = { image = [{ size = 5, usd = 1 }] }",
            "models.a.price.image.size: must be a text",
        ),
        ("price = { image = [{ usd = 1 }, { usd = 2 }] }", "has two prices for the same size"),
        (
            "price = { video_second = [{ quality = 'x', usd = 1 }] }",
            "video_second.quality: is not known",
        ),
        ("price = { input = 1, tool_calls = { search = 1 } }", "tool_calls.search: is not known"),
        (
            "price = { input = 1, web_search = 1, tool_calls = { web_search = 1 } }",
            "is given twice",
        ),
        ("price = { input = 1, long_context = { input = 2 } }", "needs `long_context_tokens`"),
        (
            "price = { input = 1, service_tiers = { flex = 0 } }",
            "service_tiers.flex: 0 is not a valid factor",
        ),
        ("price = { input = 1, service_tiers = { flex = -1 } }", "-1 is not a valid factor"),
        (
            "price = { input = 1, service_tiers = { flex = 'x' } }",
            "service_tiers.flex: must be a table",
        ),
        (
            "price = { input = 1, service_tiers = { default = 1 } }",
            "is the tier of the prices outside",
        ),
        ("price = { input = 1, service_tiers = { fast = 1, priority = 2 } }", "is another name of"),
        ("prices = {}", "models.a.prices: must be a list"),
        ("prices = []", "models.a.prices: must be a list"),
        ("prices = [{ input = 1 }]", "models.a.prices.from: is missing"),
        ("prices = [{ from = 'x', input = 1 }]", "`x` is not a date"),
        ("prices = [{ from = 5, input = 1 }]", "models.a.prices.from: must be a text"),
        (
            "prices = [{ from = '2026-01-02', input = 1 }, { from = '2026-01-02', input = 1 }]",
            "2026-01-02 is not after the entry before it",
        ),
        ("batch_price = { input = 1 }", "models.a.batch_price: needs `price`"),
        ("free = true\nprice = { input = 1 }", "models.a.free: contradicts"),
    ] {
        check(lines, expected);
    }
    let long = |inner: &str| {
        format!("long_context_tokens = 9\nprice = {{ input = 2, output = 2, {inner} }}")
    };
    check(&long("long_context = { input = 4 }"), "long_context.output: is missing");
    check(
        &long("long_context = { input = 1, output = 4 }"),
        "long_context.input: is below the price",
    );
    check(
        &long("long_context = { input = 4, output = 4, request = 1 }"),
        "long_context.request: is not known",
    );
    let flex = "long_context = { input = 4, output = 4 }, service_tiers = { flex = { input = 1, output = 1 } }";
    check(&long(flex), "service_tiers.flex.long_context: is missing");
}

#[test]
fn where_money_counts_every_model_needs_a_price() {
    let served =
        |text: &str| read(&format!("{text}\n[upstreams.main]\nbase_url = \"http://a/v1\""));
    let refused = |text: &str, expected: &str| {
        let error = served(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let priced = "[models.a]\nprice = { input = 1, output = 1 }\n";
    refused(
        &format!("{priced}[models.b]\n"),
        "g.toml:3: models.b: has no price, though the model `a` has one; add `price`, or `free = true`",
    );
    refused(
        "[models.b]\n[tiers.1]\nmonthly_limit_usd = 5",
        "though tiers.1.monthly_limit_usd limits",
    );
    refused(
        "[models.a]\nprice = { audio_minute = 1 }\n[tiers.1.limits.a]\nipm = 5",
        "models.a.price: has no `image`, though the model has a limit `ipm`",
    );
    for (text, counts) in [
        (format!("{priced}[models.b]\nfree = true"), true),
        ("[models.b]\nfree = true\n[tiers.1]\nmonthly_limit_usd = 5".to_owned(), true),
        // The tiers' limits are there by default: a file without any price is one without money.
        ("[models.b]\n[tiers.1.limits.b]\nrpm = 5".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(served(&text).unwrap().counts_money, counts, "{text}");
    }
    // Without an upstream this program answers itself, which costs nothing.
    let offline = read(&format!("{priced}[models.b]")).unwrap();
    assert!(offline.catalog.find("b").unwrap().is_free && offline.catalog.unpriced().is_none());
}

#[test]
fn calls_of_tools_may_have_one_price_for_all_models() {
    let defaults = "[defaults]\ntool_calls = { web_search = 0.01, file_search = 0.0025 }\n";
    let model = "[models.a]\nprice = { input = 1, output = 1, tool_calls = { web_search = 0.02 } }";
    let settings = read(&format!("{defaults}{model}")).unwrap();
    let price = settings.catalog.find("a").unwrap().price_at(0, false).unwrap();
    assert_eq!(price.calls, [Some(20_000), Some(2500), None, None]);
    let error = read("[defaults]\ntool_calls = { x = 1 }").unwrap_err().to_string();
    assert!(error.contains("2: defaults.tool_calls.x: is not known here"), "{error}");
}

proptest! {
    /// No amount is zero, negative or beyond the bound, whatever number is written.
    #[test]
    fn an_amount_is_read_exactly_or_refused(
        usd in prop_oneof![any::<f64>(), -10.0..2_000_000.0, 0.0..0.001],
        member in prop::sample::select(vec!["input", "request", "audio_minute", "image"]),
    ) {
        let read = read(&format!("[models.a]\nprice = {{ {member} = {usd:?} }}"));
        prop_assert_eq!(read.is_ok(), (0.000_001..=1_000_000.0).contains(&usd), "{:?}", usd);
        let Ok(settings) = read else { return Ok(()) };
        let price = settings.catalog.find("a").unwrap().price_at(0, false).unwrap();
        let amount = match member {
            "input" => price.tokens.short.input,
            "request" => price.request.unwrap(),
            "audio_minute" => price.audio_minute.unwrap(),
            _ => price.images[0].price,
        };
        prop_assert_eq!(amount, (usd * 1_000_000.0).round() as u64);
        prop_assert!(amount > 0);
    }
}
