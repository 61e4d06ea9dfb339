//! The contract of the data path, one test per rule. Malicious input is in `bad_input.rs`,
//! concurrency in `limits.rs`, the administration in `admin.rs` and `usage.rs`; pure rules are
//! tested beside their code.
//!
//! | rule | test |
//! |---|---|
//! | limits belong to organizations and projects, not to users | `refusals::a_project_limit_names_the_project` |
//! | limits vary by model; long contexts have their own | `refusals::tokens`, `headers::a_long_context_shows_its_own_bucket` |
//! | a shared limit is one bucket; a request must fit into it and its model's | `models::a_shared_group_has_one_bucket_and_a_request_must_fit_both` |
//! | RPM, RPD, TPM, TPD, IPM, audio minutes, with their messages, types and waits | `refusals::requests_a_minute`, `::requests_a_day`, `::tokens`, `::images`, `::audio_minutes` |
//! | waits below a second are reported in milliseconds; `Retry-After` is at least 1 | `refusals::a_short_wait_is_returned_in_milliseconds` |
//! | of several limits, the one with the longest wait is reported | `refusals::the_longest_wait_of_several_limits_is_returned` |
//! | the larger of `max_tokens` and the characters ÷ 4, at least 1; images and audio 0; lists added; the cap | `estimates::the_estimate_is_the_larger_of_the_maximum_and_the_characters`, `::the_cap_is_the_smallest_limit_that_applies` |
//! | a list of inputs is one request | `estimates::a_list_of_embeddings_is_one_request` |
//! | an absurd `max_tokens` is 400 | `estimates::out_of_range_maxima_are_refused_without_a_charge` |
//! | an explicit maximum above the whole limit: "Request too large", never retried | `refusals::a_request_above_the_whole_limit_is_refused_without_a_retry_time` |
//! | a refusal counts once, only on RPM, up to the limit | `refusals::a_refusal_counts_one_request_and_nothing_else` |
//! | 401, 404 and malformed requests count nothing | `refusals::malformed_requests_count_nothing` |
//! | a request that the upstream fails counts, and the rest is refunded | `refusals::a_failed_upstream_request_is_counted_and_its_tokens_are_released` |
//! | the reported wait suffices, and all clients that wait are served | `refusals::a_client_that_waits_for_retry_after_is_served` |
//! | vector store ingestion: 300 per minute and store, both paths together | `refusals::a_vector_store_has_one_limit_for_both_of_its_paths` |
//! | tiers change with payments, immediately, and usage is kept | `models::a_payment_raises_the_tier_at_once` |
//! | a tier without an entry has the limits of the nearest lower one | `models::a_tier_without_an_entry_uses_the_nearest_lower_one` |
//! | headers on every response whose key and model were recognised; request id, organization, time on all | `headers::every_kind_of_response_has_limit_headers`, `::responses_without_a_known_key_or_model_have_no_limit_headers` |
//! | headers show the state after the reservation; reset forms | `headers::limit_headers_state_the_remainder_after_the_reservation`, `policy::duration` |
//! | the scarcer of model and group; the daily limit only without one per minute | `headers::limit_headers_show_the_scarcer_of_model_and_group` |
//! | project headers only where they apply | `headers::project_headers_appear_with_a_project_token_limit`, `::project_headers_appear_with_a_project_request_limit` |
//! | model permissions of projects and keys, on every route that names a model | `permissions` |
//! | Messages: estimate, reservation, settlement, errors and headers in the form of that wire | `messages` |
//! | every route in front of a server of every wire: answers, streams, settlement, refusals, errors, keys | `wires` |
//! | members that choose another server are removed; other models to try are refused | `members` |
//! | paths of unknown cost are closed where limits apply; upgrades are refused | `paths::a_path_of_unknown_cost_is_closed_where_limits_apply`, `::an_upgrade_is_no_usual_request` |
//! | requests without a model draw on `*` | `headers::requests_without_a_model_show_the_limits_of_the_pseudo_model`, `::pass_through_requests_draw_on_the_named_model` |
//! | spend limits: codes, `insufficient_quota`, never retried | `money::each_spend_limit_has_its_code`, `::the_tier_spend_limit_has_its_code` |
//! | spend is reserved and settled in the same decision | `money::requests_in_flight_are_reserved`, `::every_completion_is_reserved`, `::every_prompt_is_reserved`, `::an_output_limit_that_a_server_ignores_bounds_nothing` |
//! | a form is charged by its route | `prices::no_form_hides_its_audio_or_its_images` |
//! | a team that is refused costs no other one a request, for every reason | `isolation::*` |
//! | money that is only reserved is `spend_reserved` and retried, on two nodes, too | `money::requests_in_flight_are_reserved`, `::the_reservations_of_a_project_and_of_a_tier_are_named`, `limits_lost::money_that_another_node_has_reserved_is_waited_for` |
//! | a reservation shrinks once its input is known | `money::a_stream_releases_money_when_its_input_is_known` |
//! | usage beyond the reservation is recorded, and the next request is refused | `money::use_beyond_the_reservation_is_recorded_and_blocks_the_next_request` |
//! | months start at zero; cached input is cheaper; soft limits are only reported | `money::spend_restarts_at_zero_each_month`, `::cached_input_is_cheaper`, `::soft_limits_report_and_refuse_nothing` |
//! | prices: images, audio minutes, audio tokens, service tier, long context, tool calls, dates | `prices` |
//! | no request without a price where spend is limited | `prices::a_hard_limit_needs_prices`, `::a_video_without_a_model_is_refused_where_money_counts` |
//! | videos cost their seconds, settled from their end | `videos` |
//! | `service_tier: priority` is `fast`; `prompt_cache_retention` defaults; the rest passes unchanged | `edits::set_fields_change_and_other_bytes_stay`, `::prompts_stay_in_memory_with_zero_data_retention` |
//! | a hard limit adds the maximum | `edits::a_hard_limit_adds_the_maximum` |
//! | usage is requested in streams and removed | `edits::stream_usage_is_requested_and_removed_again` |
//! | a transparent background needs png or webp | `edits::transparent_jpeg_images_are_refused` |
//! | moderations have a default model | `edits::moderations_have_a_default_model` |
//! | the forwarded headers of a client | `edits::client_headers_about_the_upstream_are_not_forwarded` |
//! | the returned headers of an upstream | `headers::only_allowed_upstream_headers_are_returned` |
//! | alias and snapshot are one bucket, named by the snapshot | `models::alias_and_snapshot_share_one_bucket` |
//! | deprecation headers before a shutdown date, 404 after it | `models::a_model_is_deprecated_then_unavailable` |
//! | `GET /v1/models` with aliases and shutdown dates | `models::models_are_listed_with_their_aliases_and_ends` |
//! | `GET /v1/fine_tuning/model_limits` | `models::fine_tuning_limits_follow_the_tier` |
//! | retired interfaces; remix | `models::retired_interfaces_name_their_replacement` |
//! | a reload keeps usage, and a re-pointed alias moves the entry | `models::a_reload_keeps_usage_and_moves_an_entry_with_its_alias` |
//! | a restart loses nothing | `models::limits_survive_a_restart` |
//! | a node that is killed settles what it had open when it starts again | `killed::*`, `histories::*` |
//! | no sequence of requests over any path spends more than a limit and one request | `spend_routes::*` |
//! | bearer keys, rotation with grace, revocation, archived projects | `tenants::requests_without_a_valid_key_are_refused`, `::keys_are_revoked_and_rotated`, `::keys_of_archived_projects_and_deleted_organizations_are_refused` |
//! | headers that contradict the key | `tenants::headers_must_not_contradict_the_key` |
//! | regions and geography | `tenants::a_host_names_a_region` |
//! | another project's object is 404, in any reference | `tenants::objects_are_invisible_to_other_projects`, `::objects_of_other_projects_cannot_be_referenced`, `::forms_cannot_refer_to_objects_of_other_projects`, `::lists_show_only_objects_of_the_project` |
//! | metrics: their port and token, bounded series of projects, times | `metrics` |
//! | alerts reach the webhook signed, once, over failures and restarts | `alerts` |
//! | failed sign-ins are logged, counted and bounded | `sign_ins` |
//! | paths with dots, encodings, empty segments | `tenants::path_traversal_is_refused` |
//! | implausible usage is ignored and counted, and changes no other charge | `usage::implausible_upstream_usage_is_ignored`, `::a_false_usage_changes_no_other_charge` |
//! | both families of usage names, with and without streaming | `usage::both_spellings_of_usage_are_read` |
//! | an aborted stream is settled once, with the usage so far | `usage::a_disconnected_client_is_settled_once`, `::an_aborted_stream_costs_its_usage_or_the_received_text` |
//! | an answer that comes later is settled once, by the first end that is seen of it | `later::*`, `later_lost::*`, `later_nodes::*`, `later_histories::*` |
//! | a compressed answer is decoded, counted and passed on | `upstreams::compressed_responses_are_decoded_and_counted`, `::compressed_errors_are_decoded`, `::a_compressed_stream_that_breaks_is_counted_and_cut_off` |
//! | an upstream that hangs, disconnects, returns HTML, redirects | `upstreams::upstream_failures_map_to_client_errors`, `usage::a_silent_upstream_stream_times_out` |
//! | its errors pass without our key and host; 401 and 403 become 502; its 429 has a code | `upstreams::forwarded_errors_contain_neither_key_nor_host`, `::errors_within_streams_are_redacted`, `::an_upstream_429_has_its_own_code` |
//! | a killed backend costs no request that has no answer yet; what must not happen twice is not repeated | `backends::a_backend_killed_under_load_costs_no_client_an_error`, `::only_what_is_safe_is_repeated` |
//! | the choice of a backend: priorities, prompt cache keys, concurrency, objects, regions | `backends::*` |
//! | a backend that fails is put aside and tried again; pauses; probes; a reload | `backend_health::*` |
//! | keys of a backend take turns, are put aside and read again; `prompt_cache_retention` only where it is taken | `backend_keys::*` |
//! | private authorities and proxies | `backend_network::*` |
//! | `Retry-After` of an upstream, whatever the status | `backend_health::the_wait_that_an_upstream_asks_for_passes_with_every_status` |
//! | 413, 408, malformed JSON, duplicate keys | `bad_input::a_body_of_two_hundred_megabytes_is_refused`, `::a_slow_body_is_refused`, `::malformed_json_bodies_are_refused` |
//! | a `POST` without a body where none is needed | `bad_input::an_optional_body_may_be_empty_but_not_malformed` |
//! | no over-admission with 64 clients; the ledger equals the meters | `limits::one_gateway_admits_exactly_its_limits`, `::token_and_spend_limits_hold_and_the_ledger_equals_the_meters` |
//! | the same on two nodes, and while a server or a node dies | `limits::two_gateways_share_one_limit`, `::nothing_is_admitted_twice_while_redis_dies`, `::nothing_is_admitted_twice_while_a_gateway_dies` |
//! | the store of the limits unreachable: 503, also from `/readyz` | `limits::without_redis_requests_are_refused_and_the_gateway_is_not_ready` |
//! | limits of a day are restored after the store of the limits has lost its data | `limits_lost::the_limits_of_a_day_come_back_from_the_ledger`, `::a_used_up_day_stays_used_up_and_many_clients_restore_it_once` |
//! | its faults are named at the start, in the log and by `/readyz` | `limits_lost::a_misconfigured_redis_is_an_error_of_the_configuration`, `::a_fault_of_redis_is_reported_once_and_by_readyz` |
//! | shutdown drains; a reload drops no request | `limits::a_gateway_that_shuts_down_finishes_its_streams`, `::a_reload_drops_no_request` |

mod alerts;
mod backend_health;
mod backend_keys;
mod backend_network;
mod backend_shares;
mod backend_silence;
pub(crate) mod backends;
mod clock;
mod edits;
mod ends;
mod estimates;
mod headers;
mod killed;
pub(crate) mod later;
mod later_histories;
mod later_lost;
mod later_nodes;
mod members;
mod messages;
mod metrics;
mod models;
mod money;
mod paths;
mod permissions;
mod prices;
mod proxies;
mod refusals;
mod sign_ins;
mod tenants;
mod training;
mod upstreams;
mod usage;
mod videos;

use crate::common::gateway::{TestGateway, config};
use crate::common::upstream::Upstream;

/// A model with an alias; keys of it, or tables, may follow.
const BIG: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n\
    price = { input = 1.0, cached_input = 0.1, output = 10.0 }\n";

/// A gateway before an upstream that answers everything.
async fn start(rest: &str) -> (TestGateway, Upstream) {
    let upstream = Upstream::start().await;
    (TestGateway::start(&config(&upstream, rest)).await, upstream)
}
