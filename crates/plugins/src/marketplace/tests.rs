//! Tests of the reader of marketplaces.
