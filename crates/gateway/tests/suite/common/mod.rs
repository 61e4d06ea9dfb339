//! What several areas of the tests share: servers, nodes, upstreams, clients.

pub(crate) mod background;
pub(crate) mod batching;
pub(crate) mod both_stores;
pub(crate) mod fixture;
pub(crate) mod gateway;
pub(crate) mod html_form;
pub(crate) mod mortal;
pub(crate) mod node;
// Shared with the tests of the program, some of whose servers are not needed here.
#[allow(dead_code)]
pub(crate) mod servers;
pub(crate) mod upstream;
