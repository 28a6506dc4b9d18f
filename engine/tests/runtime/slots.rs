//! Slots.
