//! The contract of the data path, one test per rule. Malicious input is in `bad_input.rs`,
//! concurrency in `limits.rs`, the administration in `admin.rs` and `usage.rs`; pure rules are
//! tested beside their code.
//!
//! | rule | test |
//! |---|---|
//! | limits belong to organizations and projects, not to users | `refusals::a_projects_limit_names_the_project` |
//! | limits vary by model; long contexts have their own | `refusals::tokens`, `headers::a_long_context_shows_its_own_bucket` |
//! | a shared limit is one bucket; a request must fit into it and its model's | `models::a_shared_group_is_one_bucket_and_a_request_must_fit_in_both` |
//! | RPM, RPD, TPM, TPD, IPM, audio minutes, with their messages, types and waits | `refusals::requests_a_minute`, `::requests_a_day`, `::tokens`, `::images`, `::audio_minutes` |
//! | waits below a second are reported in milliseconds; `Retry-After` is at least 1 | `refusals::a_short_wait_is_told_in_milliseconds` |
//! | of several limits, the one with the longest wait is reported | `refusals::of_several_limits_the_longest_wait_is_named` |
//! | the larger of `max_tokens` and the characters ÷ 4, at least 1; images and audio 0; lists added; the cap | `estimates::the_larger_of_the_maximum_and_the_characters`, `::the_cap_is_the_smallest_limit_that_applies` |
//! | a list of inputs is one request | `estimates::a_list_of_embeddings_is_one_request` |
//! | an absurd `max_tokens` is 400 | `estimates::absurd_maxima_are_refused_before_they_count` |
//! | an explicit maximum above the whole limit: "Request too large", never retried | `refusals::a_request_above_the_whole_limit_is_refused_for_good` |
//! | a refusal counts once, only on RPM, up to the limit | `refusals::a_refusal_counts_one_request_and_nothing_else` |
//! | 401, 404 and malformed requests count nothing | `refusals::what_is_not_understood_counts_nothing` |
//! | a request that the upstream fails counts, and the rest is refunded | `refusals::what_the_upstream_fails_keeps_its_request_and_gives_the_rest_back` |
//! | the reported wait suffices, and all clients that wait are served | `refusals::who_waits_as_told_is_served` |
//! | vector store ingestion: 300 per minute and store, both paths together | `refusals::a_vector_store_has_one_limit_for_both_of_its_paths` |
//! | tiers change with payments, immediately, and usage is kept | `models::a_payment_moves_to_the_next_tier_at_once` |
//! | a tier without an entry has the limits of the nearest lower one | `models::a_tier_without_an_entry_takes_the_nearest_lower_one` |
//! | headers on every response whose key and model were recognised; request id, organization, time on all | `headers::every_kind_of_answer_has_them`, `::an_answer_without_a_known_key_or_model_has_no_limits` |
//! | headers show the state after the reservation; reset forms | `headers::they_tell_the_state_after_the_reservation`, `policy::duration` |
//! | the scarcer of model and group; the daily limit only without one per minute | `headers::of_model_and_group_the_scarcer_is_shown` |
//! | project headers only where they apply | `headers::project_headers_are_there_where_a_project_limit_of_tokens_is` |
//! | requests without a model draw on `*` | `headers::requests_without_a_model_show_the_limits_of_the_pseudo_model`, `::requests_that_pass_through_draw_on_the_model_that_they_name` |
//! | spend limits: codes, `insufficient_quota`, never retried | `money::each_limit_of_money_has_its_code`, `::the_tiers_limit_has_its_code` |
//! | spend is reserved and settled in the same decision | `money::what_is_under_way_is_reserved`, `::all_that_is_made_is_reserved` |
//! | usage beyond the reservation is recorded, and the next request is refused | `money::what_was_used_beyond_the_reservation_is_recorded_and_the_next_is_refused` |
//! | months start at zero; cached input is cheaper; soft limits are only reported | `money::a_new_month_begins_at_nothing`, `::cached_input_is_cheaper`, `::soft_limits_tell_and_refuse_nothing` |
//! | `service_tier: priority` is `fast`; `prompt_cache_retention` defaults; the rest passes unchanged | `edits::fields_that_are_set_and_bytes_that_stay`, `::prompts_stay_in_memory_with_zero_data_retention` |
//! | a hard limit adds the maximum | `edits::a_hard_limit_adds_the_maximum` |
//! | usage is requested in streams and removed | `edits::usage_is_asked_for_in_streams_and_taken_out_again` |
//! | a transparent background needs png or webp | `edits::transparency_is_no_matter_for_jpeg` |
//! | moderations have a default model | `edits::moderations_have_a_default_model` |
//! | the forwarded headers of a client | `edits::no_header_of_a_client_is_about_the_upstream` |
//! | the returned headers of an upstream | `headers::of_an_upstreams_headers_only_harmless_ones_come_back` |
//! | alias and snapshot are one bucket, named by the snapshot | `models::alias_and_snapshot_are_one_bucket` |
//! | deprecation headers before a shutdown date, 404 after it | `models::a_models_end_is_announced_and_comes` |
//! | `GET /v1/models` with aliases and shutdown dates | `models::models_are_listed_with_their_aliases_and_ends` |
//! | `GET /v1/fine_tuning/model_limits` | `models::fine_tuning_limits_are_the_tiers` |
//! | retired interfaces; remix | `models::retired_interfaces_say_what_replaces_them` |
//! | a reload keeps usage, and a re-pointed alias moves the entry | `models::a_reload_keeps_usage_and_moves_an_entry_with_its_alias` |
//! | a restart loses nothing | `models::a_restart_forgets_nothing` |
//! | bearer keys, rotation with grace, revocation, archived projects | `tenants::without_a_good_key_nothing_opens`, `::keys_are_revoked_and_rotated`, `::an_archived_project_and_a_deleted_organization_open_nothing` |
//! | headers that contradict the key | `tenants::headers_must_not_contradict_the_key` |
//! | regions and geography | `tenants::a_host_names_a_region` |
//! | another project's object is 404, in any reference | `tenants::what_one_project_made_another_does_not_see`, `::what_another_project_made_is_not_referred_to`, `::lists_show_what_is_the_projects` |
//! | paths with dots, encodings, empty segments | `tenants::paths_that_lead_astray_go_nowhere` |
//! | implausible usage is ignored and counted | `usage::usage_that_cannot_be_believed_is_ignored` |
//! | both families of usage names, with and without streaming | `usage::both_families_of_names_are_read` |
//! | an aborted stream is settled once, with the usage so far | `usage::a_client_that_goes_away_is_settled_once`, `::an_aborted_stream_costs_what_its_usage_says_or_at_most_the_reservation` |
//! | an upstream that hangs, disconnects, returns HTML, redirects | `upstreams::how_they_fail_and_what_is_told`, `usage::an_upstream_that_falls_silent_in_a_stream_is_given_up` |
//! | its errors pass without our key and host; 401 and 403 become 502; its 429 has a code | `upstreams::errors_pass_without_our_key_and_host`, `::errors_within_streams_are_scrubbed_too`, `::its_429_passes_with_a_code_of_its_own` |
//! | 413, 408, malformed JSON, duplicate keys | `bad_input::two_hundred_megabytes`, `::a_slow_body`, `::bodies_that_are_no_good_json` |
//! | a `POST` without a body where none is needed | `bad_input::routes_that_need_no_body_take_none` |
//! | no over-admission with 64 clients; the ledger equals the meters | `limits::one_gateway_admits_exactly_what_its_limits_say`, `::tokens_and_money_are_never_passed_and_the_ledger_equals_the_meters` |
//! | the same on two nodes, and while a server or a node dies | `limits::two_gateways_have_one_limit`, `::nothing_is_admitted_twice_while_redis_dies`, `::nothing_is_admitted_twice_while_a_gateway_dies` |
//! | the store of the limits unreachable: 503, also from `/readyz` | `limits::without_redis_requests_are_refused_and_the_gateway_is_not_ready` |
//! | shutdown drains; a reload drops no request | `limits::a_gateway_that_ends_cuts_no_stream`, `::a_reload_drops_no_request` |
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "../common/gateway.rs"]
mod harness;
#[path = "../common/upstream.rs"]
mod upstream;

mod edits;
mod estimates;
mod headers;
mod models;
mod money;
mod refusals;
mod tenants;
mod upstreams;
mod usage;

use harness::{TestGateway, config};
use upstream::Upstream;

/// A model with an alias; keys of it, or tables, may follow.
const BIG: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n\
    price = { input = 1.0, cached_input = 0.1, output = 10.0 }\n";

/// A gateway before an upstream that answers everything.
async fn start(rest: &str) -> (TestGateway, Upstream) {
    let upstream = Upstream::start().await;
    (TestGateway::start(&config(&upstream, rest)).await, upstream)
}
