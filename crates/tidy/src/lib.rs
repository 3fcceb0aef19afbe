//! The rules of the house, as tests.
