//! Schedules at random of the throttles, under shuttle; see `tests/`.
