//! Decides from a parsed command line what may run without asking.
