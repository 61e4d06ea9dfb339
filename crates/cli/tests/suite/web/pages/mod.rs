//! What is done in the page of `agentd web`, by subject.

mod hostile;
mod network;
mod work;
