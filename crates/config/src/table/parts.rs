//! Missing parts of the program that keys need.

use crate::kind::Effect;

pub(super) const WINDOWS: Effect = Effect::Pending("the sandbox on Windows");
