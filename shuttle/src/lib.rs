//! Runs the throttles under random schedules with shuttle; see `tests/`.
